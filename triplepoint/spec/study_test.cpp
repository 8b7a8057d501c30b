// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {
namespace {

const Library& library() {
  static const Library held = default_library();
  return held;
}

StudyPlan study_of(const std::string& name) {
  return must(load_study(library(), name));
}

/// A study in memory: defaults that make a job, and what the test adds.
Result<StudyPlan> study_from(const std::string& rest) {
  const std::string head =
      "[study]\n"
      "title = \"t\"\n"
      "[defaults]\n"
      "model = \"gpt3-175b\"\n"
      "cluster = { base = \"hgx-h200\", num_nodes = 4 }\n"
      "plan.global_batch_size = 128\n"
      "plan.tensor_parallel_size = 8\n";
  return parse_study(library(), head + rest, "s.toml");
}

std::vector<std::string> names_in(const Result<StudyPlan>& study) {
  REQUIRE_MESSAGE(study, study.error().what);
  return mapped(study->jobs, [](const StudyJob& entry) { return entry.job.name; });
}

TEST_CASE("every study of the library reads") {
  const auto names = list_studies(library());
  CHECK(names.size() >= 5);
  for (const std::string& name : names) {
    const StudyPlan study = study_of(name);
    CHECK(study.name == name);
    CHECK_FALSE(study.jobs.empty());
    CHECK_FALSE(study.title.empty());
  }
}

TEST_CASE("a grid makes every combination, the last axis fastest") {
  const auto names = names_in(
      study_from("[[grid]]\n"
                 "name = \"{layout}_mbs{micro_batch_size}\"\n"
                 "micro_batch_size = [1, 2]\n"
                 "[[grid.axis]]\n"
                 "name = \"layout\"\n"
                 "values = [{ label = \"a\", pipeline_parallel_size = 2 }, { label = \"b\" }]\n"));
  CHECK(names == std::vector<std::string>{"a_mbs1", "a_mbs2", "b_mbs1", "b_mbs2"});
}

TEST_CASE("a grid varies models and machines as well as plans") {
  const auto study = study_from(
      "[[grid]]\nname = \"{model}_{nodes}\"\nmodel = [\"gpt3-175b\", \"llama3-70b\"]\n"
      "nodes = [2, 4]\n");
  CHECK(names_in(study) ==
        std::vector<std::string>{"gpt3-175b_2", "gpt3-175b_4", "llama3-70b_2", "llama3-70b_4"});
  CHECK(study->jobs[1].job.world_size() == 32);
  CHECK(study->jobs[2].job.model.num_layers == 80);
}

TEST_CASE("a key that is a list is varied by a list of lists only") {
  const std::string one = "[[grid]]\nname = \"g\"\ndevice_order = [1, 2, 5, 7, 0, 3, 4, 6]\n";
  const std::string two =
      "[[grid]]\n[[grid.axis]]\nname = \"order\"\n"
      "values = [{ label = \"a\", device_order = [1, 0, 2, 3, 4, 5, 6, 7] }, "
      "{ label = \"b\" }]\n";
  CHECK(names_in(study_from(one)).size() == 1);
  CHECK(names_in(study_from(two)) == std::vector<std::string>{"a", "b"});
  CHECK(study_from(two)->jobs[0].job.plan.device_order.front() == 1);
  CHECK(study_from(two)->jobs[1].job.plan.device_order.empty());
}

TEST_CASE("an invalid job stays in its study with its diagnosis") {
  const auto study = must(study_from("[[job]]\nname = \"odd\"\npipeline_parallel_size = 5\n"));
  REQUIRE(study.jobs.size() == 1);
  CHECK(has_errors(study.jobs[0].diagnoses));
}

TEST_CASE("a declared diagnosis goes with every job of its grid") {
  const auto study = must(study_from(
      "[[job]]\nname = \"a\"\n"
      "diagnosis = [{ code = \"node_count_mismatch\", severity = \"error\", what = \"w\" }]\n"));
  CHECK(study.jobs[0].diagnoses.front() ==
        Diagnosis{DiagnosisCode::node_count_mismatch, Diagnosis::Severity::error, "w"});
}

TEST_CASE("a wrong study is refused with the place and a way out") {
  const std::map<std::string, std::string> sentences = {
      {"[[grids]]\n",
       "s.toml:8: unknown key 'grids' (it would be ignored); did you mean \"grid\"?"},
      {"[[job]]\nname = \"a\"\n[[job]]\nname = \"a\"\n",
       "s.toml: two jobs are named \"a\" (their runs would overwrite each other); include the "
       "difference in the name, as in name = \"{model}_{layout}\""},
      {"[[job]]\nname = \"a/b\"\n",
       "s.toml: job name \"a/b\" is no file name (its run is stored under it); use letters, digits "
       "and - _ . +"},
      {"[[job]]\nmicro_batch_size = 1\n",
       "s.toml:8: a job has no name (its run is stored under it); add name = \"...\""},
      {"[[job]]\nname = \"a\"\ntensor_size = 1\n",
       "s.toml:10: unknown key 'tensor_size' in [plan] (it would be ignored); known are "},
      {"[[grid]]\n[[grid.axis]]\nname = \"x\"\n",
       "s.toml:9: an [[axis]] has no values (it would make no job); add values = [ ... ]"},
      {"[[grid]]\n[[grid.axis]]\nname = \"x\"\nvalues = [{ micro_batch_size = 1 }]\n",
       "s.toml:11: a value of an axis has no label (jobs are named by it); write { label = "
       "\"TP8-PP4\", ... }"},
      {"[score]\nwarm_up = \"1 s\"\nduration = \"0 s\"\n[[score.metric]]\n"
       "name = \"joules_per_token\"\nweight = 1\n",
       "s.toml:8: [score] scores nothing, or better as worse"},
      {"[score]\nwarm_up = \"1 s\"\nduration = \"1 s\"\n[[score.metric]]\nname = \"speed\"\n"
       "weight = 1\n",
       "s.toml:12: score.metric.name is \"speed\""},
      {"[job]\nname = \"a\"\n", "s.toml:8: job is a table (there may be several); write [[job]]"},
  };
  for (const auto& [text, sentence] : sentences) {
    const auto study = study_from(text);
    REQUIRE_FALSE(study);
    CHECK(study.error().what.substr(0, sentence.size()) == sentence);
  }
}

TEST_CASE("a grid too large to be meant is refused") {
  std::string values;
  for (int i = 0; i < 400; ++i)
    values += fmt::format("{}, ", i + 1);
  const auto study = study_from(
      fmt::format("[[grid]]\nmicro_batch_size = [{0}]\nglobal_batch_size = [{0}]\n", values));
  REQUIRE_FALSE(study);
  CHECK(study.error().what ==
        "s.toml:8: the grid makes more than 100000 jobs (that was hardly meant); take values out");
}

TEST_CASE("a study includes others, each job once") {
  const auto all = study_of("paper/all"), h200 = study_of("paper/h200"),
             h100 = study_of("paper/h100"), sweep = study_of("paper/microbatch-h200"),
             mi250 = study_of("paper/mi250");
  // 13 layouts and 2 FSDP runs at microbatch 1 with recomputation are in both sweeps.
  const std::size_t shared = 13 + 2;
  CHECK(all.jobs.size() ==
        h200.jobs.size() + h100.jobs.size() + sweep.jobs.size() + mi250.jobs.size() - shared);
}

TEST_CASE("no weight of a suite turns better into worse") {
  const std::string suite = *read_file(library().root + "/studies/suite/node-v1.toml");
  const std::string was = "weight = ";
  const auto at = suite.find(was) + was.size();
  const auto end = suite.find_first_of(",}\n ", at);
  for (const char* weight : {"nan", "inf", "-1.0"})
    CHECK(!parse_study(library(), suite.substr(0, at) + weight + suite.substr(end), "s.toml"));
  CHECK(parse_study(library(), suite.substr(0, at) + "2.5" + suite.substr(end), "s.toml"));
}

TEST_CASE("the NIC sensitivity varies nothing but the NICs") {
  const Cluster plain = *load_cluster(library(), "hgx-h200");
  std::set<int64_t> nics;
  for (const StudyJob& entry : study_of("sensitivity/nics-h200").jobs) {
    CHECK(entry.diagnoses.empty());
    nics.insert(entry.job.cluster.scale_out.nics_per_node);
    Cluster cluster = entry.job.cluster;
    cluster.scale_out.nics_per_node = plain.scale_out.nics_per_node;
    CHECK(cluster == plain);
  }
  CHECK(nics == std::set<int64_t>{1, 2, 4, 8});
}

/// What makes a job of the upstream matrix: machine, model, layout, batch, recompute, overlap.
std::string key_of(const Job& job) {
  const Plan& plan = job.plan;
  const bool fsdp = plan.sharding == Sharding::parameters;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}",
                     job.cluster.gpu.name == "h200" ? "H200" : "H100", job.cluster.num_nodes,
                     job.model.name, plan.tensor_parallel_size, plan.pipeline_parallel_size,
                     plan.expert_parallel_size, plan.micro_batch_size, plan.global_batch_size,
                     plan.recompute == Recompute::full, plan.sequence_parallel, plan.overlap_tensor,
                     plan.overlap_gradient, plan.overlap_parameter, fsdp);
}

std::string key_of(const CsvTable& table, std::size_t row) {
  std::string key;
  for (const char* column : {"gpu_type", "sbatch_nodes", "model", "TP", "PP", "EP", "MBS", "GBS"})
    key += fmt::format("{} ", table.at(row, *table.column(column)));
  key += fmt::format("{}", table.at(row, *table.column("recompute_granularity")) == "full");
  for (const char* column :
       {"SP", "tp_comm_overlap_ub", "overlap_grad_sync", "overlap_param_sync", "FSDP"})
    key += fmt::format(" {}", table.at(row, *table.column(column)) == "True");
  return key;
}

/// Rows of the upstream table and the study that holds them.
struct Sweep {
  const char *column, *cell;
  std::size_t files, distinct;
  const char* study;
  std::function<bool(const Job&)> belongs;
};

TEST_CASE("the studies hold exactly the distinct jobs of the paper's artifact") {
  const Result<std::string> text = read_file(TPT_SHARED_DIR "/data/charllm_experiments.csv");
  if (!text) {
    MESSAGE("skipped: ../shared is not there (" << text.error().what << ")");
    return;
  }
  const CsvTable table = CsvTable::parse(*text, "charllm_experiments.csv").value();
  const auto generates = [](Task task) {
    return [task](const Job& job) { return job.task == task && !job.model.moe; };
  };
  for (const Sweep& sweep :
       std::vector<Sweep>{{"task", "pretrain", 188, 163, "paper/all",
                           [](const Job& job) { return job.cluster.name != "mi250"; }},
                          {"sweep", "lora", 84, 68, "paper/lora",
                           [](const Job& job) { return job.task == Task::lora && !job.records; }},
                          {"entry_script", "tuning/megatron_gpt_generate.py", 70, 70,
                           "paper/inference", generates(Task::prefill)},
                          {"entry_script", "tuning/megatron_gpt_generate.py", 70, 70,
                           "paper/inference", generates(Task::decode)}}) {
    CAPTURE(sweep.study);
    std::set<std::string> asked, held;
    std::size_t files = 0;
    for (std::size_t row = 0; row < table.rows(); ++row)
      if (table.at(row, *table.column(sweep.column)) == sweep.cell)
        asked.insert(key_of(table, row)), ++files;
    for (const StudyJob& entry : study_of(sweep.study).jobs)
      if (sweep.belongs(entry.job)) held.insert(key_of(entry.job));
    CHECK(files == sweep.files);
    CHECK(asked.size() == sweep.distinct);
    CHECK(held == asked);
  }
}

TEST_CASE("the paper's invalid jobs are diagnosed rows, and no other job is refused") {
  std::map<DiagnosisCode, int> errors, warnings;
  for (const StudyJob& entry : study_of("paper/all").jobs)
    for (const Diagnosis& diagnosis : entry.diagnoses)
      ++(diagnosis.severity == Diagnosis::Severity::error ? errors : warnings)[diagnosis.code];
  CHECK(errors == std::map<DiagnosisCode, int>{{DiagnosisCode::layers_not_divisible, 4},
                                               {DiagnosisCode::batch_not_divisible, 1}});
  CHECK(warnings[DiagnosisCode::tensor_overlap_without_sequence_parallel] == 8);
  CHECK(warnings[DiagnosisCode::node_count_mismatch] == 8);
}

}  // namespace
}  // namespace triplepoint::spec
