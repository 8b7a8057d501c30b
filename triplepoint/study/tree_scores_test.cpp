// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/tree_scores.h"

#include <algorithm>
#include <iterator>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/study/experiment_job.h"
#include "triplepoint/study/experiments.h"
#include "triplepoint/study/tree_testing.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::study {
namespace {

using namespace testing;
using calibrate::ScoredRow;
using calibrate::TableScores;

TableScores score(const Path& tree) {
  const spec::Library library = spec::default_library();
  const auto scores = score_tree(tree, {.library = library, .begin = {}, .advance = {}});
  REQUIRE_MESSAGE(scores.has_value(), (scores ? "" : scores.error().what));
  return *scores;
}

const ScoredRow& row_of(const TableScores& scores, const std::string& id,
                        const std::string& quantity) {
  const auto found = std::find_if(
      scores.scored.begin(), scores.scored.end(),
      [&](const ScoredRow& row) { return row.row_id == id && row.quantity == quantity; });
  REQUIRE_MESSAGE(found != scores.scored.end(), quantity);
  return *found;
}

std::string reason_of(const TableScores& scores, const std::string& id) {
  for (const calibrate::SkippedRow& row : scores.skipped)
    if (row.row_id == id) return row.reason;
  return "";
}

/// Writes a simulated run as its training would have left it.
void write_experiment(const Path& folder, const spec::Job& job) {
  const run::Run run = sim::simulate(job, {});
  std::vector<run::NamedText> files = telemetry::artifact_files(run);
  std::ranges::move(kineto_files(run), std::back_inserter(files));
  REQUIRE(run::write_all(files, folder));
  write(folder / (folder.filename().string() + ".yaml"), formats::export_nemo_yaml(job).text);
}

TEST_CASE("a simulation that is written as an experiment is predicted without an error") {
  auto job = spec::parse_job(spec::default_library(),
                             "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\n"
                             "stack = \"nemo-profiled\"\n[plan]\ntensor_parallel_size = 4\n"
                             "pipeline_parallel_size = 2\nsequence_parallel = true\n"
                             "global_batch_size = 32\n",
                             "job.toml");
  REQUIRE(job.has_value());
  const ScratchFolder scratch;
  write_experiment(scratch.folder() / "ours", *job);
  const TableScores scores = score(scratch.folder() / "ours");
  CHECK(scores.rows == 1);
  CHECK(scores.skipped.empty());
  CHECK(scores.fit.ran_and_fits == 1);
  for (const char* quantity :
       {"kernel_compute_s", "kernel_all_gather_s", "kernel_send_recv_s", "kernel_total_s"}) {
    const ScoredRow& row = row_of(scores, "ours", quantity);
    CHECK(row.measured > 0);
    CHECK(row.predicted == doctest::Approx(row.measured).epsilon(0.01));
  }
  for (const char* quantity : {"step_time_s", "power_mean_w", "sm_clock_mean_mhz"}) {
    const ScoredRow& row = row_of(scores, "ours", quantity);
    CHECK(row.predicted == doctest::Approx(row.measured).epsilon(0.05));
  }
  const ScoredRow& heat = row_of(scores, "ours", "temperature_mean_c");
  CHECK(std::abs(heat.predicted - heat.measured) < 1);
  CHECK(heat.family == "temperature_mean_c");
  CHECK(heat.sweep == "llama3-8b on 8 x H200");
  CHECK(heat.notes.front() == "the job is that of ours.yaml");
  CHECK(row_of(scores, "ours", "step_time_s").interval.has_value());
}

TEST_CASE("experiments of a tree are held against the paper's jobs of their names") {
  const Tree tree;
  const TableScores scores = score(tree.root);
  CHECK(scores.table == "result tree");
  CHECK(scores.rows == 5);
  const ScoredRow& power = row_of(scores, "gpt3-175b_1_01000", "power_mean_w");
  CHECK(power.measured == doctest::Approx(450));
  CHECK(power.predicted > 300);
  CHECK(power.predicted < 700);
  CHECK(power.notes == std::vector<std::string>{
                           "the job is paper/h200:h200_gpt3-175b_TP2-PP16_act by the folder's name",
                           "incomplete: samples of 2 of the job's 32 GPUs"});
  CHECK(power.sweep == "gpt3-175b on 32 x H200");
  CHECK(row_of(scores, "gpt3-175b_1_01000", "kernel_all_reduce_s").measured ==
        doctest::Approx(0.2));
  // Traces alone have no powers, sums alone no steps.
  CHECK(row_of(scores, "gpt3-175b_3_01000", "kernel_compute_s").measured == doctest::Approx(0.3));
  // 0.3 s on rank 0, 0.5 s on rank 8.
  CHECK(row_of(scores, "gpt3-175b_1_00000", "kernel_compute_s").measured == doctest::Approx(0.4));
  for (const ScoredRow& row : scores.scored)
    if (row.row_id == "gpt3-175b_1_00000") CHECK(row.quantity.starts_with("kernel_"));
  // TP1-PP32 without recompute ran out of memory, and does not fit by our estimate.
  CHECK(scores.fit.failed_and_does_not_fit == 1);
  CHECK(scores.fit.ran_and_fits == 4);
  CHECK(scores.skipped.empty());
}

TEST_CASE("an experiment is known by its name, however its folder is written") {
  const Tree tree;
  for (const Path& folder : {tree.samples / "", tree.samples / ".", tree.samples / "2041" / ".."}) {
    const TableScores scores = score(folder);
    CHECK(scores.skipped.empty());
    CHECK(row_of(scores, "gpt3-175b_2_01000", "power_mean_w").measured == doctest::Approx(450));
  }
}

TEST_CASE("a recording of more ranks than the job of its name is not held against it") {
  const Tree tree;
  write(tree.samples / "9_kineto" / "rank-40.json", kineto(40, 1));
  CHECK(reason_of(score(tree.samples), "gpt3-175b_2_01000") ==
        "the job is not known: the job is paper/h200:h200_gpt3-175b_TP4-PP8_act by the folder's "
        "name: a job of 32 GPUs, but the recording is of 41");
}

TEST_CASE("an overlap that changes nothing has the job without it") {
  const Tree tree;
  write_samples(tree.sweep / "mixtral-8x22b_1_11000");
  const TableScores scores = score(tree.sweep / "mixtral-8x22b_1_11000");
  CHECK(row_of(scores, "mixtral-8x22b_1_11000", "power_mean_w").notes.front() ==
        "the job is paper/h200:h200_mixtral-8x22b_EP8-TP1-PP4_act by the folder's name; overlap "
        "changes nothing in this layout");
}

TEST_CASE("the sweep's folder tells LoRA from training, and the GPU") {
  const Tree tree;
  write_samples(tree.root / "lora" / "gpt3-175b" / "gpt3-175b_2_mbs2");
  write_samples(tree.root / "optimization-sweep-h100" / "gpt3-175b" / "gpt3-175b_2_01000");
  const auto job_of = [&](const char* sweep, const std::string& name) {
    const TableScores scores = score(tree.root / sweep);
    return row_of(scores, name, "power_mean_w").notes.front();
  };
  CHECK(job_of("lora", "gpt3-175b_2_mbs2") ==
        "the job is paper/lora:lora_gpt3-175b_TP4-PP8_mbs2 by the folder's name");
  CHECK(job_of("optimization-sweep-h100", "gpt3-175b_2_01000") ==
        "the job is paper/h100:h100_gpt3-175b_TP4-PP16_act by the folder's name");
}

TEST_CASE("experiments whose job is not known are skipped with the reason") {
  const Tree tree;
  write_samples(tree.root / "ours" / "llama" / "run-of-march");
  write_samples(tree.root / "inference" / "gpt3-175b" / "gpt3-175b_1_mbs1");
  write_samples(tree.root / "microbatch-sweep-h200" / "gpt3-175b" / "gpt3-175b_1_mbs3");
  write(tree.samples / "hparams.yaml", "cfg:\n  num_layers: 2\n  hidden_size: x\n");
  write(tree.root / "died" / "a" / "gpu_power_0.csv", "");
  const TableScores scores = score(tree.root);
  CHECK(reason_of(scores, "run-of-march")
            .find("no NeMo configuration is in the folder, and it is "
                  "not named like an experiment") != std::string::npos);
  CHECK(
      reason_of(scores, "gpt3-175b_1_mbs1").find("experiments of inference are known by a NeMo") !=
      std::string::npos);
  CHECK(reason_of(scores, "gpt3-175b_1_mbs3") ==
        "the job is not known (gpt3-175b TP2-PP16 recompute with microbatch 3 on H200 is not in "
        "the paper/ studies); put its NeMo configuration into the folder");
  CHECK(reason_of(scores, "gpt3-175b_2_01000") ==
        "the job is not known: " + (tree.samples / "hparams.yaml").string() +
            ":3: model.hidden_size is 'x' (it must be a whole number from 1 to 10000000); correct "
            "the value");
  CHECK(reason_of(scores, "a").find("no reading in any of its files") != std::string::npos);
  CHECK(scores.skipped.size() == 5);
}

TEST_CASE("a configuration that is another job than its folder's name says so in the note") {
  const auto job = [](const char* microbatch) {
    auto parsed =
        spec::parse_job(spec::default_library(),
                        std::string("model = \"gpt3-175b\"\ncluster = \"hgx-h200\"\nnodes = 4\n"
                                    "stack = \"nemo-profiled\"\n[plan]\ntensor_parallel_size = 8\n"
                                    "pipeline_parallel_size = 4\nsequence_parallel = true\n"
                                    "global_batch_size = 128\nmicro_batch_size = ") +
                            microbatch + "\n",
                        "job.toml");
    REQUIRE(parsed.has_value());
    return *parsed;
  };
  const ScratchFolder scratch;
  const Path folder =
      scratch.folder() / "optimization-sweep-h200" / "gpt3-175b" / "gpt3-175b_3_00000";
  const auto note_of = [&](const spec::Job& configured) {
    write(folder / "job.yaml", formats::export_nemo_yaml(configured).text);
    const auto found = configured_job(spec::default_library(), folder, {});
    REQUIRE(found.has_value());
    REQUIRE_MESSAGE(found->has_value(), (*found ? "" : found->error().what));
    return (*found)->notes.front();
  };
  CHECK(note_of(job("1")) == "the job is that of job.yaml");
  CHECK(note_of(job("4")) ==
        "the job is that of job.yaml; the folder's name says gpt3-175b TP8-PP4 with microbatch 1");
}

TEST_CASE("a folder without experiments is no result tree") {
  const ScratchFolder scratch;
  const spec::Library library = spec::default_library();
  const auto scores =
      score_tree(scratch.folder(), {.library = library, .begin = {}, .advance = {}});
  REQUIRE_FALSE(scores);
  CHECK(scores.error().what.find("no experiment of the MICRO'25 artifact") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::study
