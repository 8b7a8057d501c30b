// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/experiments.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/report/figures/paper_figures.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/study/sources.h"
#include "triplepoint/study/tree_testing.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::study {
namespace {

using namespace testing;

TEST_CASE("experiments of a result tree are found at any depth") {
  const Tree tree;
  const std::vector<Path> all = {tree.sums, tree.whole, tree.samples, tree.traces};
  CHECK(experiments_in(tree.root) == all);
  CHECK(experiments_in(tree.sweep) == all);
  CHECK(experiments_in(tree.whole) == std::vector<Path>{tree.whole});
  CHECK(out_of_memory_in(tree.root) == std::vector<Path>{tree.nothing});
  CHECK(experiments_in(tree.nothing).empty());
  CHECK(kind_of_source(tree.root.string()) == SourceKind::study);
  CHECK(kind_of_source(tree.whole.string()) == SourceKind::traces);
}

TEST_CASE("samples and traces of an experiment are one run, of its newest job") {
  const Tree tree;
  const run::Run run = read_experiment(tree.whole, {}).value();
  CHECK(run.devices.size() == 2);
  REQUIRE(run.steps.size() == 1);
  const metrics::KernelSeconds kernels =
      metrics::kernel_seconds(run.timeline, 0, metrics::KernelRules::upstream);
  CHECK(kernels.compute / unit::s == doctest::Approx(0.3));
  CHECK(kernels.all_reduce / unit::s == doctest::Approx(0.2));
  CHECK(kernels.memory / unit::s == doctest::Approx(0.1));
  // On the samples' clock: 100 ms after the first of them.
  CHECK((run.timeline.spans.front().begin - run.steps.front().begin) / unit::ms ==
        doctest::Approx(100));
  const std::vector<std::string>& notes = run.manifest.notes;
  CHECK(std::find(notes.begin(), notes.end(),
                  "traces are those of 123_kineto, the newest job; 41_kineto left aside") !=
        notes.end());
}

TEST_CASE("GPUs of an experiment have the type that the figures name") {
  const Tree tree;
  const auto devices_row = [](const Path& experiment) {
    const run::Run run = read_experiment(experiment, {}).value();
    const std::string page = report::run_page(run, metrics::measure(run));
    const std::string figure =
        report::paper_job(run, {}, experiment.filename().string(), experiment).machine;
    const size_t row = page.find("<th scope=\"row\">devices</th>");
    REQUIRE(row != std::string::npos);
    const std::string gpu = figure.empty() ? "GPU" : figure.substr(figure.rfind(' ') + 1);
    CHECK(page.substr(row, 60).find(" " + gpu + "</td>") != std::string::npos);
    return figure;
  };
  CHECK(devices_row(tree.whole) == "2 x H200");
  CHECK(devices_row(tree.samples) == "2 x H200");
  const Path h100 = tree.root / "optimization-sweep-h100" / "gpt3-175b" / "gpt3-175b_2_01000";
  write_samples(h100);
  CHECK(devices_row(h100) == "2 x H100");
  const Path unknown = tree.root / "mine";
  write_samples(unknown);
  CHECK(devices_row(unknown).empty());
}

TEST_CASE("an experiment may have samples or traces alone") {
  const Tree tree;
  CHECK(read_experiment(tree.samples, {}).value().timeline.empty());
  const run::Run traced = read_experiment(tree.traces, {}).value();
  CHECK(traced.series.empty());
  CHECK_FALSE(traced.timeline.empty());
  for (const Path& experiment : {tree.samples, tree.traces})
    for (const char* end : {"", "."})
      CHECK(read_experiment(experiment / end, {}).value().manifest.name == experiment.filename());
  const auto none = read_experiment(tree.sums, {});
  REQUIRE_FALSE(none);
  CHECK(none.error().what ==
        tree.sums.string() +
            ": neither samples nor traces (only kernel sums, which figures 3, 10 and 15 draw); "
            "report --figure N");
}

TEST_CASE("kernel sums of an experiment count by the artifact's rules") {
  const Tree tree;
  const auto sums = read_kernel_stats(tree.sums).value();
  REQUIRE(sums.has_value());
  REQUIRE(sums->size() == 9);
  CHECK((*sums)[0].compute / unit::s == doctest::Approx(0.3));
  CHECK((*sums)[0].all_reduce / unit::s == doctest::Approx(0.2));
  CHECK((*sums)[8].compute / unit::s == doctest::Approx(0.5));
  CHECK_FALSE(read_kernel_stats(tree.whole).value().has_value());
  for (const char* bad : {"rank-70000.json,gemm,1,5,5\n", "x.json,gemm,1,5,5\n",
                          "rank-1.json,gemm,1,,5\n", "rank-1.json,gemm,1,1e300,5\n"}) {
    write(tree.sums / "gpt3-175b_1_00000_kernel_stats.csv", std::string(stats) + bad);
    const auto refused = read_kernel_stats(tree.sums);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().what.find("kernel_stats.csv:5: no rank as in rank-0.json, or no "
                                    "duration in microseconds") != std::string::npos);
  }
  write(tree.sums / "gpt3-175b_1_00000_kernel_stats.csv", "a,b\n1,2\n");
  const auto other = read_kernel_stats(tree.sums);
  REQUIRE_FALSE(other);
  CHECK(other.error().what.find("no columns of a trace, a kernel and a total duration (there are "
                                "a, b)") != std::string::npos);
}

TEST_CASE("figures of a tree show what the artifact's scripts compute, and what left nothing") {
  const Tree tree;
  const std::vector<report::PaperJob> jobs = load_paper_jobs({tree.root.string()}).value().jobs;
  REQUIRE(jobs.size() == 5);
  const auto of = [&](const char* layout, const char* variant) {
    const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const report::PaperJob& job) {
      return job.layout == layout && job.variant == variant;
    });
    REQUIRE(found != jobs.end());
    return *found;
  };
  const report::PaperJob whole = of("TP2-PP16", "recompute");
  CHECK(whole.machine == "2 x H200");
  CHECK(whole.metrics.power_mean_w.value() == doctest::Approx(450));
  CHECK(whole.metrics.power_peak_w.value() == doctest::Approx(500));
  CHECK(whole.metrics.temperature_mean_c.value() == doctest::Approx(50.5));
  // 20 periods of 1000 KiB and of 100,000 B, put together over the wrap.
  CHECK(whole.metrics.links.scale_up_received_per_gpu_bytes.at(0) ==
        doctest::Approx(20.0 * 1000 * 1024));
  CHECK(whole.metrics.links.pcie_received_per_gpu_bytes.at(1) == doctest::Approx(2e6));
  CHECK(whole.kernels.at(0).compute / unit::s == doctest::Approx(0.3));
  // 128 samples in a second, 900 J.
  CHECK(whole.efficiency.value() == doctest::Approx(128 / 900e-6));
  CHECK(of("TP2-PP16", "base").machine == "2 x H200");
  CHECK(of("TP2-PP16", "base").kernels.at(4).compute / unit::s == doctest::Approx(0.5));
  // Rank 8 of 32 is in the fifth of 16 stages.
  CHECK(of("TP2-PP16", "base").kernels.size() == 2);
  // Two ranks of one stage of eight.
  REQUIRE(of("TP8-PP4", "recompute").kernels.size() == 1);
  CHECK(of("TP8-PP4", "recompute").kernels.at(0).all_reduce / unit::s == doctest::Approx(0.2));
  CHECK_FALSE(of("TP1-PP32", "base").fits_memory);
  CHECK(of("TP1-PP32", "base").machine == "2 x H200");
  for (const int64_t number : {4, 8, 10})
    CHECK(report::paper_figure(number, jobs).has_value());
}

TEST_CASE("a tree is a study with a run for each experiment") {
  const Tree tree;
  const report::Study study = load_study_source(tree.root.string()).value();
  REQUIRE(study.rows.size() == 5);
  // Kernel sums alone are no run: a row with the reason.
  CHECK(study.rows[0].name == "gpt3-175b_1_00000");
  CHECK(study.rows[0].verdict == report::Verdict::unreadable);
  REQUIRE(study.rows[0].diagnoses.size() == 1);
  CHECK(study.rows[0].diagnoses[0].what.find("neither samples nor traces") != std::string::npos);
  CHECK(study.rows[1].name == "gpt3-175b_1_01000");
  CHECK(study.rows[1].metrics.has_value());
  CHECK(study.rows[4].name == "gpt3-175b_4_00000");
  CHECK(study.rows[4].verdict == report::Verdict::oom);
  const report::Summary summary = report::summary_of(study);
  CHECK(summary.ok == 3);
  CHECK(summary.oom == 1);
  CHECK(summary.unreadable == 1);
  CHECK(summary.invalid == 0);
  for (const report::StudyRow& row : study.rows) {
    CHECK(row.told_model == "gpt3-175b");
    CHECK(row.told_machine == (row.slots.empty() ? "32 x H200" : "2 x H200"));
  }
  const std::string page = report::study_page(study);
  CHECK(page.find("<b>1</b> do not fit in memory, <b>0</b> invalid, <b>1</b> <a "
                  "href=\"#not-readable\">not readable</a>") != std::string::npos);
  CHECK(page.find("<li><b>gpt3-175b_1_00000</b>: " + tree.sums.string() + ": neither samples") !=
        std::string::npos);
}

TEST_CASE("what a tree holds in part is drawn or left out with a remark") {
  const Tree tree;
  write(tree.traces / "7_kineto" / "rank-1.json", kineto(1, 1).substr(0, 420));
  const Path died = tree.sweep / "gpt3-175b_4_01000";
  write(died / "gpu_power_0.csv", "");
  const FigureJobs found = load_paper_jobs({tree.root.string()}).value();
  CHECK(found.jobs.size() == 5);
  REQUIRE(found.remarks.size() == 2);
  CHECK(found.remarks[0].starts_with("gpt3-175b_3_01000: "));
  CHECK(found.remarks[0].find("rank-1.json: the file ends before its last event") !=
        std::string::npos);
  CHECK(found.remarks[1] == "left out: " + died.string() +
                                ": no reading in any of its files (the job died before its first "
                                "sample); leave the folder out");
  CHECK_FALSE(load_paper_jobs({died.string()}));
}

TEST_CASE("folders of a sweep say the GPU and the task") {
  const Tree tree;
  for (const char* sweep : {"optimization-sweep-h100/gpt3-175b", "lora/gpt3-175b"})
    write_samples(tree.root / sweep / "gpt3-175b_1_01000");
  // Folders above the sweep say nothing.
  write_samples(tree.root / "of-our-h100" / "sweep" / "gpt3-175b" / "gpt3-175b_2_01000");
  const auto jobs = load_paper_jobs({tree.root.string()}).value().jobs;
  const auto has = [&](const char* machine, const char* task, const char* layout) {
    return std::any_of(jobs.begin(), jobs.end(), [&](const report::PaperJob& job) {
      return job.machine == machine && job.task == task && job.layout == layout;
    });
  };
  CHECK(has("2 x H100", "", "TP2-PP32"));
  CHECK(has("2 x H200", "lora", "TP2-PP16"));
  CHECK(has("2 x H200", "", "TP2-PP16"));
  CHECK(has("2 x H200", "", "TP4-PP8"));
  CHECK_FALSE(has("2 x H100", "", "TP4-PP16"));
}

TEST_CASE("a run exported as an experiment reads back with the same kernels and powers") {
  const Tree tree;
  const run::Run run = read_experiment(tree.whole, {}).value();
  const Path copy = tree.root / "copy" / "gpt3-175b_1_01000";
  std::vector<run::NamedText> files = telemetry::artifact_files(run);
  std::ranges::move(kineto_files(run), std::back_inserter(files));
  REQUIRE(run::write_all(files, copy));
  const auto before = load_paper_jobs({tree.whole.string()}).value().jobs,
             after = load_paper_jobs({copy.string()}).value().jobs;
  REQUIRE(after.size() == 1);
  REQUIRE(after[0].kernels.size() == 1);  // both ranks are of the first stage
  CHECK(after[0].kernels.at(0).compute == before[0].kernels.at(0).compute);
  CHECK(after[0].kernels.at(0).all_reduce == before[0].kernels.at(0).all_reduce);
  CHECK(after[0].kernels.at(0).memory == before[0].kernels.at(0).memory);
  CHECK(after[0].metrics.power_mean_w.value() ==
        doctest::Approx(before[0].metrics.power_mean_w.value()));
  CHECK(after[0].efficiency.value() == doctest::Approx(before[0].efficiency.value()));
}

TEST_CASE("a NeMo log is a run of steps, without a timeline in which all would be idle") {
  const ScratchFolder scratch;
  std::string log = "Epoch 0: :   0%|          | 0/3 [00:00<?, ?it/s]\n";
  for (int step = 0; step < 3; ++step)
    log += fmt::format(
        "Epoch 0: :  9%|x         | {}/3 [00:31<05:10, v_num=0, reduced_train_loss=11.00, "
        "global_step={}.000, consumed_samples={}.0, train_step_timing in s={}.50]\n",
        step + 1, step, 128 * (step + 1), 24 + step);
  const run::Run run = load_run_source({scratch.file("nemo.out", log)}, {}).value();
  CHECK(run.timeline.empty());
  REQUIRE(run.steps.size() == 3);
  CHECK((run.steps[2].end - run.steps[2].begin) / unit::s == doctest::Approx(26.5));
  const metrics::Metrics metrics = metrics::measure(run);
  CHECK(*metrics.step_time / unit::s == doctest::Approx(25.5));
  CHECK_FALSE(metrics.bubble_fraction);
}

TEST_CASE("a simulated run exported as an experiment keeps its kernel classes") {
  const auto job = spec::parse_job(spec::default_library(),
                                   "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\n"
                                   "[plan]\ntensor_parallel_size = 4\npipeline_parallel_size = 2\n"
                                   "sequence_parallel = true\nglobal_batch_size = 4\n",
                                   "job.toml");
  REQUIRE(job.has_value());
  const run::Run run = sim::simulate(*job, {});
  const ScratchFolder scratch;
  std::vector<run::NamedText> files = telemetry::artifact_files(run);
  std::ranges::move(kineto_files(run), std::back_inserter(files));
  REQUIRE(run::write_all(files, scratch.folder()));
  const run::Run read = read_experiment(scratch.folder(), {}).value();
  CHECK(read.devices.size() == 8);
  for (const int32_t rank : {0, 4})
    for (const auto rules : {metrics::KernelRules::ours, metrics::KernelRules::upstream}) {
      const auto before = metrics::kernel_seconds(run.timeline, rank, rules),
                 after = metrics::kernel_seconds(read.timeline, rank, rules);
      const auto same = [](Seconds a, Seconds b) {
        CHECK(a / unit::s == doctest::Approx(b / unit::s).epsilon(1e-6));
      };
      same(after.compute, before.compute);
      same(after.all_gather, before.all_gather);
      same(after.reduce_scatter, before.reduce_scatter);
      same(after.all_reduce, before.all_reduce);
      same(after.send_recv, before.send_recv);
      same(after.memory, before.memory);
    }
}

}  // namespace
}  // namespace triplepoint::study
