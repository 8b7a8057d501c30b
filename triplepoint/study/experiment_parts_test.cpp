// SPDX-License-Identifier: Apache-2.0
// Parts of an experiment's folder beside samples and traces: logs, kernel sums, and what is
// missing.
#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/report/figures/paper_figures.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/study/experiments.h"
#include "triplepoint/study/sources.h"
#include "triplepoint/study/tree_testing.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::study {
namespace {

using namespace testing;

/// Three steps of 0.9 s; the second ends 0.95 s after the first sample (1700000000 is 22:13:20
/// UTC).
std::string log_text(bool dated) {
  std::string log;
  for (int step = 0; step < 3; ++step)
    log += fmt::format(
        "{}Training epoch 0, iteration {}/10 | global_batch_size: 128 | global_step: {} | "
        "reduced_train_loss: 11.0 | train_step_timing in s: 0.90 | consumed_samples: {}\n",
        dated ? fmt::format("[NeMo I 2023-11-15 00:13:{},950 nemo_logging:381] ", 19 + step) : "",
        step, step, 128 * (step + 1));
  return log;
}

bool has_note(const run::Run& run, const std::string& note) {
  return std::count(run.manifest.notes.begin(), run.manifest.notes.end(), note) == 1;
}

TEST_CASE("steps of an experiment's log that lie in its samples are the run's steps") {
  const Tree tree;
  write(tree.whole / "slurm-123.out", log_text(true));
  write(tree.whole / "slurm-41.out", log_text(false));  // of the older job
  const run::Run run = load_run_source({tree.whole.string()}, {}).value();
  REQUIRE(run.steps.size() == 1);
  CHECK((run.steps[0].end - run.steps[0].begin) / unit::s == doctest::Approx(0.9));
  CHECK((run.steps[0].begin - Instant()) / unit::s == doctest::Approx(0.05));
  CHECK(run.steps[0].samples == 128);
  CHECK(run.manifest.facts.at("logged_step_time") == "0.9 s");
  CHECK(has_note(run, "the log is slurm-123.out; slurm-41.out left aside"));
  CHECK(has_note(run,
                 "steps are those of slurm-123.out that lie in the recording: 1 of 3 steps, 0.9 s "
                 "on average (its clock is UTC+02:00, within 0.05 s)"));
  for (const std::string& note : run.manifest.notes)
    CHECK_FALSE(note.starts_with("one step is assumed"));
  // The paper's figures take the whole recording, as the artifact's scripts do.
  const auto jobs = load_paper_jobs({tree.whole.string()}).value().jobs;
  CHECK(*jobs.at(0).metrics.step_time / unit::s == doctest::Approx(1));
}

TEST_CASE("a log that cannot be laid on the samples is a fact beside them, with the reason") {
  const Tree tree;
  write(tree.samples / "nemo_log.txt", log_text(false));
  const run::Run run = load_run_source({tree.samples.string()}, {}).value();
  REQUIRE(run.steps.size() == 1);
  CHECK((run.steps[0].end - run.steps[0].begin) / unit::s == doctest::Approx(1));
  CHECK(run.manifest.facts.at("logged_step_time") == "0.9 s");
  CHECK(has_note(run,
                 "nemo_log.txt has 3 steps, 0.9 s on average; they are not the steps of this run "
                 "(its lines of steps have no date and time)"));
}

TEST_CASE("a folder with a log alone is a run of its steps, out of memory, or not readable") {
  const Tree tree;
  write(tree.sweep / "gpt3-175b_1_00001" / "job.out", log_text(false));
  write(tree.nothing / "job.err", "torch.cuda.OutOfMemoryError: CUDA out of memory.\n");
  write(tree.sweep / "gpt3-175b_1_00100" / "job.out", "srun: error: node failure\n");
  write(tree.sweep / "notes" / "readme.txt", "not an experiment\n");
  const report::Study study = load_study_source(tree.root.string()).value();
  const auto row = [&](const std::string& name) {
    const auto found = std::find_if(study.rows.begin(), study.rows.end(),
                                    [&](const report::StudyRow& one) { return one.name == name; });
    REQUIRE(found != study.rows.end());
    return *found;
  };
  CHECK(study.rows.size() == 7);
  CHECK(row("gpt3-175b_1_00001").verdict == report::Verdict::ok);
  CHECK(*row("gpt3-175b_1_00001").metrics->step_time / unit::s == doctest::Approx(0.9));
  CHECK(row("gpt3-175b_4_00000").verdict == report::Verdict::oom);
  CHECK(row("gpt3-175b_4_00000").diagnoses.at(0).what ==
        "job.err says that the job ran out of memory");
  CHECK(row("gpt3-175b_1_00100").verdict == report::Verdict::unreadable);
  CHECK(row("gpt3-175b_1_00100").diagnoses.at(0).what.find("no line of a training step") !=
        std::string::npos);
}

TEST_CASE("traces that cannot be read do not cost the samples") {
  const Tree tree;
  for (const char* rank : {"rank-0.json", "rank-1.json"})
    write(tree.whole / "123_kineto" / rank, "killed\n");
  const run::Run run = read_experiment(tree.whole, {}).value();
  CHECK(run.devices.size() == 2);
  CHECK(run.timeline.empty());
  REQUIRE(missing_parts(run).size() == 1);
  CHECK(missing_parts(run)[0].starts_with("traces ("));
  metrics::TraceOptions of_rank;
  of_rank.ranks = "0";
  CHECK_FALSE(read_experiment(tree.whole, of_rank));
}

TEST_CASE("samples of a part of the job's GPUs are said to be that") {
  const Tree tree;
  for (const char* metric : {"gpu_power", "gpu_thermal", "nvlink_rx_throughput", "pcie_rx_bytes"})
    std::filesystem::remove(tree.whole / fmt::format("{}_1.csv", metric));
  const run::Run run = read_experiment(tree.whole, {}).value();
  CHECK(missing_parts(run) == std::vector<std::string>{"samples of 1 of the job's 2 GPUs"});
  const auto remarks = load_paper_jobs({tree.root.string()}).value().remarks;
  CHECK(remarks == std::vector<std::string>{
                       "gpt3-175b_1_01000: incomplete: samples of 1 of the job's 2 GPUs"});
}

/// Exports a run, and reads its kernels from its traces and, without these, from its sums.
void check_sums_of(const run::Run& run, const Path& folder) {
  const std::string name = folder.filename().string();
  std::vector<run::NamedText> files = telemetry::artifact_files(run);
  std::ranges::move(kineto_files(run), std::back_inserter(files));
  const auto sums = kernel_stats_file(run, name);
  REQUIRE(sums.has_value());
  CHECK(sums->name == name + "_kernel_stats.csv");
  files.push_back(*sums);
  REQUIRE(run::write_all(files, folder));
  const auto traced = load_paper_jobs({folder.string()}).value().jobs;
  REQUIRE(std::filesystem::remove_all(folder / "1_kineto") > 1);
  const auto summed = load_paper_jobs({folder.string()}).value().jobs;
  REQUIRE(traced.size() == 1);
  REQUIRE(summed.size() == 1);
  REQUIRE(traced[0].kernels.size() == summed[0].kernels.size());
  for (const auto& [rank, kernels] : traced[0].kernels) {
    const metrics::KernelSeconds& other = summed[0].kernels.at(rank);
    const auto same = [](Seconds a, Seconds b) {
      CHECK(a / unit::s == doctest::Approx(b / unit::s).epsilon(1e-9));
    };
    same(kernels.compute, other.compute);
    same(kernels.all_reduce, other.all_reduce);
    same(kernels.all_gather, other.all_gather);
    same(kernels.reduce_scatter, other.reduce_scatter);
    same(kernels.send_recv, other.send_recv);
    same(kernels.memory, other.memory);
    same(kernels.other, other.other);
  }
  for (const int64_t figure : {3, 10, 15}) {
    const auto drawn = report::paper_figure(figure, traced);
    REQUIRE(drawn.has_value());
    CHECK(drawn->svg == report::paper_figure(figure, summed).value().svg);
  }
}

TEST_CASE("exported kernel sums draw the figures that the exported traces draw") {
  const Tree tree;
  check_sums_of(read_experiment(tree.whole, {}).value(),
                tree.root / "copy" / "gpt3-175b" / "gpt3-175b_1_mbs1");
}

TEST_CASE("exported kernel sums of a simulated run are those of its traces") {
  const ScratchFolder scratch;
  const auto job = spec::parse_job(spec::default_library(),
                                   "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\n"
                                   "[plan]\ntensor_parallel_size = 4\npipeline_parallel_size = 2\n"
                                   "sequence_parallel = true\nglobal_batch_size = 4\n",
                                   "job.toml");
  REQUIRE(job.has_value());
  check_sums_of(sim::simulate(*job, {}), scratch.folder() / "gpt3-175b_1_mbs1");
}

TEST_CASE("a run without kernels has no kernel sums") {
  const Tree tree;
  CHECK_FALSE(kernel_stats_file(read_experiment(tree.samples, {}).value(), "x"));
}

/// On the two GPUs of the tree: TP2, batches of 32.
spec::Job job_of_tree() {
  auto job = spec::parse_job(spec::default_library(),
                             "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\n"
                             "stack = \"nemo-profiled\"\n[plan]\ntensor_parallel_size = 2\n"
                             "global_batch_size = 32\nrecompute = \"full\"\n",
                             "job.toml");
  REQUIRE(job.has_value());
  spec::use_devices(job->cluster, 2);
  return *std::move(job);
}

/// The model's part, as NeMo's logger keeps it.
std::string hparams_of(const spec::Job& job) {
  const std::string yaml = formats::export_nemo_yaml(job).text;
  return "cfg:" + yaml.substr(yaml.find("\nmodel:") + 7) +
         "  precision: bf16\n  nemo_version: 1.23.0\n";
}

TEST_CASE("the configuration in an experiment's folder gives the run its job") {
  const Tree tree;
  const spec::Job job = job_of_tree();
  for (const bool whole_file : {false, true}) {
    if (whole_file)
      write(tree.whole / "gpt3-175b_1_01000.yaml", formats::export_nemo_yaml(job).text);
    else
      write(tree.whole / "hparams.yaml", hparams_of(job));
    const run::Run run = read_experiment(tree.whole, {}).value();
    REQUIRE(run.manifest.job.has_value());
    CHECK(run.manifest.job->name == "gpt3-175b_1_01000");
    CHECK(run.manifest.job->model.name == "llama3-8b");
    CHECK(run.manifest.job->plan.tensor_parallel_size == 2);
    CHECK(run.manifest.job->plan.recompute == spec::Recompute::full);
    CHECK(run.manifest.job->stack.name == "nemo-profiled");
    CHECK(run.manifest.job->world_size() == 2);
    CHECK(run.steps.at(0).samples == 32);
    CHECK(run.model_flops.has_value());
    const std::string file =
        whole_file ? "gpt3-175b_1_01000.yaml; hparams.yaml left aside" : "hparams.yaml";
    CHECK(has_note(run, "the job is that of " + file +
                            "; the folder's name says gpt3-175b TP2-PP16 with microbatch 1"));
  }
  // Figures know model, layout and batch of it, whatever the folder is called.
  const report::PaperJob drawn = load_paper_jobs({tree.whole.string()}).value().jobs.at(0);
  CHECK(drawn.model == "llama3-8b");
  CHECK(drawn.machine == "2 x H200");
  CHECK(drawn.layout == "TP2-PP1");
  CHECK(drawn.variant == "recompute");
  CHECK(drawn.efficiency.value() == doctest::Approx(32 / 900e-6));
  CHECK(drawn.kernels.at(0).compute / unit::s == doctest::Approx(0.3));
}

TEST_CASE("the nearest folder tells the GPUs of a configuration that names none") {
  const ScratchFolder scratch;
  const Path sweep = scratch.folder() / "h200-disk" / "optimization-sweep-h100";
  const Path folder = sweep / "llama3-8b" / "ours";
  write_samples(folder);
  write(folder / "hparams.yaml", hparams_of(job_of_tree()));
  const run::Run run = read_experiment(folder, {}).value();
  REQUIRE(run.manifest.job.has_value());
  CHECK(run.manifest.job->cluster.name == "hgx-h100");
}

TEST_CASE("a configuration that is not that of the recording is a note") {
  const Tree tree;
  const auto refused = [&](const std::string& text, const std::string& why) {
    const Path file = tree.whole / "gpt3-175b_1_01000.yaml";
    write(file, text);
    const run::Run run = read_experiment(tree.whole, {}).value();
    CHECK_FALSE(run.manifest.job.has_value());
    CHECK(has_note(run, "the job is not known: " + file.string() + why));
    CHECK(run.steps.at(0).samples == 0);
  };
  spec::Job job = job_of_tree();
  job.plan.tensor_parallel_size = 1;
  spec::use_devices(job.cluster, 1);
  refused(formats::export_nemo_yaml(job).text, ": a job of 1 GPUs, but the recording is of 2");
  refused("trainer:\n  devices: 2\nmodel:\n  hidden_size: 8\n",
          ": model.num_layers is missing (the model's size depends on it); add it, or take it from "
          "the checkpoint's own configuration");
}

TEST_CASE("samples of fewer GPUs than the configuration has are said to be incomplete") {
  const Tree tree;
  spec::Job job = job_of_tree();
  job.cluster.num_nodes = 2;
  write(tree.samples / "gpt3-175b_2_01000.yaml", formats::export_nemo_yaml(job).text);
  CHECK(missing_parts(read_experiment(tree.samples, {}).value()) ==
        std::vector<std::string>{"samples of 2 of the job's 4 GPUs"});
}

TEST_CASE("a folder with a configuration alone is that of a job that left nothing") {
  const Tree tree;
  write(tree.nothing / "hparams.yaml", hparams_of(job_of_tree()));
  CHECK(out_of_memory_in(tree.root) == std::vector<Path>{tree.nothing});
  write(tree.nothing / "notes.md", "what we saw");
  CHECK(out_of_memory_in(tree.root).empty());
}

}  // namespace
}  // namespace triplepoint::study
