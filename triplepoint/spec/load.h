// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/sources.h"

namespace triplepoint::spec {

struct ReadScope;
struct TomlValue;

// What a job that names none runs with: the plainest Megatron.
inline constexpr std::string_view default_stack = "megatron-core";
inline constexpr std::string_view serving_stack = "vllm";  // of prefill and decode

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
/// A job that cannot run stays in, with its diagnoses.
struct StudyJob {
  Job job;
  std::vector<Diagnosis> diagnoses;
};
struct StudyPlan {
  std::string name, title, about;
  std::vector<StudyJob> jobs;
};
Result<StudyPlan> load_study(const Library&, std::string_view name_or_path);
Result<StudyPlan> parse_study(const Library&, std::string_view text, const std::string& file);

std::vector<std::string> list_models(const Library&);
std::vector<std::string> list_gpus(const Library&);
std::vector<std::string> list_clusters(const Library&);
std::vector<std::string> list_stacks(const Library&);
std::vector<std::string> list_studies(const Library&);
std::vector<std::string> list_optimizers(const Library&);

/// The numbers of one library file ("gpus/h200", "calibrations/h200/power") with value, kind and
/// source.
Result<std::vector<Provenance>> provenance(const Library&, std::string_view file);

}  // namespace triplepoint::spec
