// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/score.h"
#include "triplepoint/spec/sources.h"

namespace triplepoint::spec {

struct ReadScope;
struct TomlValue;

// What a job that names none runs with: the plainest Megatron.
inline constexpr std::string_view default_stack = "megatron-core";
inline constexpr std::string_view trainer_stack = "triplepoint-train";  // of ranks that share cores
inline constexpr std::string_view serving_stack = "vllm";               // of prefill and decode

/// Where models/, gpus/, clusters/, stacks/, studies/ lie. `name` is the file name without .toml
/// (studies have folders: "paper/h200").
struct Library {
  std::string root;
  // What a tree of "stacks.NAME.KEY", "calibrations.GPU.kernels.KEY", ... says instead of the
  // files.
  std::shared_ptr<const TomlValue> overrides = nullptr;
};
Library default_library();  // $TRIPLEPOINT_DATA, the source tree, or the installed share folder

/// The library with the coefficients that were fitted without a source of measured jobs
/// (calibrations/left_out.toml, one table per source). A text in place of a table names the file
/// that stands in: stacks.nemo = "megatron-core".
Result<Library> without_source(const Library&, std::string_view source);

Result<Model> load_model(const Library&, std::string_view name);
Result<Gpu> load_gpu(const Library&, std::string_view name);
Result<Cluster> load_cluster(const Library&,
                             std::string_view name);  // with its gpu, calibrations merged
Result<Stack> load_stack(const Library&, std::string_view name);
Result<OptimizerState> load_optimizer(const Library&, std::string_view name);
Result<Records> load_records(const Library&, std::string_view name);

/// What a job runs with that names no optimizer: the stack's own, or, of a stack that has none, the
/// one that NeMo and Megatron share.
std::string default_optimizer(const Stack&);

/// A job from the root of its tree.
Result<Job> read_job(const ReadScope& scope, const TomlValue& root);

/// A job.toml: names (or inline tables) of model, cluster, stack; [plan]; [environment].
Result<Job> load_job(const Library&, const std::string& path);

/// The same from text; `file` is named in messages and becomes the job's origin.
Result<Job> parse_job(const Library&, std::string_view text, const std::string& file);

/// TOML that says everything, so that it needs no library: parse_job(write_job(job)) == job.
std::string write_job(const Job&);

/// The same, shorter: what the library holds under its name is named instead of repeated.
std::string write_job(const Job&, const Library&);

/// One study: a title, jobs (explicit, or a grid of values), and jobs that are known to be invalid.
/// A job that cannot run stays in, with its diagnoses. Scores of included studies are left out:
/// they speak of that study.
struct StudyJob {
  Job job;
  std::vector<Diagnosis> diagnoses;
};
struct StudyPlan {
  std::string name, title, about;
  std::vector<StudyJob> jobs;
  std::optional<ScoreRules> score = {};              // of a suite
  std::shared_ptr<const StudyPlan> suite = nullptr;  // that the jobs run on some cluster
  std::string text = {};                             // of its file
};
Result<StudyPlan> load_study(const Library&, std::string_view name_or_path);
Result<StudyPlan> parse_study(const Library&, std::string_view text, const std::string& file);

/// What the library calls a model, cluster, ... ("models") that people write in other ways: in any
/// case, as an id of Hugging Face, as data/aliases.toml has it. Empty where nothing is meant.
Result<std::string> name_in_library(const Library&, const char* folder, std::string_view name);

std::vector<std::string> list_models(const Library&);
std::vector<std::string> list_gpus(const Library&);
std::vector<std::string> list_clusters(const Library&);
std::vector<std::string> list_stacks(const Library&);
std::vector<std::string> list_studies(const Library&);
std::vector<std::string> list_optimizers(const Library&);
std::vector<std::string> list_records(const Library&);

/// The numbers of one library file ("gpus/h200", "calibrations/h200/power") with value, kind and
/// source.
Result<std::vector<Provenance>> provenance(const Library&, std::string_view file);

struct Library;

/// What a job may leave out: `with_defaults` has one rule for each.
enum class JobSetting {
  task,
  nodes,
  sequence_length,
  micro_batch_size,
  global_batch_size,
  precision,
  recompute,
  sharding,
  stack,
  optimizer
};

/// A job as a file or flags state it. What is not stated has no meaning in `job` yet.
struct StatedJob {
  Job job;
  std::set<JobSetting> stated;
  std::string length_from = "the model's";  // where a sequence length comes from that is not stated
  // Defaults of the launcher that the file is written for, as in "fp32 (Megatron's)".
  std::vector<std::string> of_launcher;
  std::vector<std::string> contested;  // "8 nodes (--nodes), not the 4 of job.toml"

  bool states(JobSetting setting) const { return stated.contains(setting); }
};

/// A number of nodes, and the file or flag that gives it.
struct NodesOf {
  int64_t nodes = 0;
  std::string giver;
};

/// Notes which of two numbers of nodes is used, where they differ.
void contest_nodes(StatedJob&, const NodesOf& used, const NodesOf& unused);

inline constexpr int64_t default_nodes = 1;           // of a cluster of the library
inline constexpr int64_t default_global_batch = 128;  // sequences; the batch of the MICRO'25 study

/// Whether a cluster is the user's own file, whose num_nodes are meant, and not one of the library.
inline bool is_own_cluster(std::string_view name) {
  return name.ends_with(".toml");
}

/// The job with what was left out, by the same rules for every reader (docs/cli.md lists them).
Result<Job> with_defaults(const Library&, StatedJob);

/// Makes the first note of a job "sequence length 4096 (the model's); by default 1 node, batch
/// 128": the length, and what `with_defaults` filled in. `searched`: settings that a search will
/// choose, which the note leaves out.
void note_defaults(Job&, const StatedJob&, const std::set<JobSetting>& searched = {});
/// The notes behind that one: how the job's file was read, and what predictions rest on.
std::vector<std::string> assumptions_of(const Job&);

/// A job that states everything, as a stored one does.
StatedJob fully_stated(Job);

/// load_job and parse_job without defaults, for flags to go on top.
Result<StatedJob> load_stated_job(const Library&, const std::string& path);
Result<StatedJob> parse_stated_job(const Library&, std::string_view text, const std::string& file);

/// The kinds of input file that have a schema: "job", "study", "model", ...
std::vector<std::string> schema_kinds();

/// JSON Schema (draft 07) of one of these kinds of file, made from the lists of fields.h, which
/// reader and writer walk as well; descriptions are the comments of the structs.
///
/// It refuses what the reader refuses by form: unknown keys, values of a wrong kind, unknown words,
/// missing keys, quantities of another dimension. The reader alone checks ranges, whether values
/// agree, and in a study, whose jobs are joined of several tables, missing keys. Names that the
/// library has are offered, others allowed: a file may be named as well.
Json file_schema(const Library&, std::string_view kind);

/// The default library, or why there is none.
Result<Library> require_library();

/// One line that says what a thing is: "174.6 B parameters, 96 layers, sequence 2048".
std::string about_model(const spec::Model& model);
std::string about_gpu(const spec::Gpu& gpu);
std::string about_cluster(const spec::Cluster& cluster);
std::string about_stack(const spec::Stack& stack);
std::string about_optimizer(const spec::OptimizerState& optimizer);
std::string about_records(const spec::Records& records);
std::string about_study(const spec::StudyPlan& study);

/// The library's GPU for the name that a driver gives it ("NVIDIA H100 80GB HBM3"), or nothing.
std::optional<std::string> gpu_named(std::string_view spelling);

/// The library's cluster whose nodes usually hold this GPU, or nothing.
std::optional<std::string> usual_cluster(std::string_view gpu);

}  // namespace triplepoint::spec
