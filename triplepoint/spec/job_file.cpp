// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"
#include "triplepoint/spec/table_writer.h"

namespace triplepoint::spec {
namespace {

bool says(const TomlValue& root, std::string_view table, std::string_view key) {
  const TomlValue* found = root.find(table);
  return found != nullptr && found->find(key) != nullptr;
}

/// Data-parallel ranks, or 1 where the layout does not fit the world (diagnose() will say so).
int64_t data_parallel_size_or_one(const Job& job) {
  const Plan& plan = job.plan;
  const double ranks = static_cast<double>(plan.tensor_parallel_size) *
                       static_cast<double>(plan.pipeline_parallel_size) *
                       static_cast<double>(plan.context_parallel_size);
  if (ranks < 1 || ranks > static_cast<double>(job.world_size())) return 1;
  return job.data_parallel_size();
}

/// What follows from the rest where it is not written.
Result<void> fill_defaults(const ReadScope& scope, const TomlValue& root, Job& job) {
  if (root.find("stack") == nullptr)
    job.stack = TPT_TRY(
        NamedThing<Stack>::load(scope, is_inference(job.task) ? serving_stack : default_stack));
  if (!says(root, "plan", "optimizer"))
    job.plan.optimizer =
        TPT_TRY(NamedThing<OptimizerState>::load(scope, default_optimizer(job.stack)));
  if (!says(root, "plan", "sharding") && data_parallel_size_or_one(job) > 1 &&
      !is_inference(job.task))
    job.plan.sharding = Sharding::optimizer;
  if (root.find("task") == nullptr && job.plan.lora) job.task = Task::lora;
  if (job.origin.empty()) job.origin = scope.file;
  return {};
}

template <class T, class Loader>
std::optional<std::string> named(Loader load, const Library& library, std::string_view key,
                                 const T& thing) {
  const Result<T> held = load(library, thing.name);
  if (!held || !(*held == thing)) return std::nullopt;
  return fmt::format("{} = {}\n", key, toml_text(thing.name));
}

}  // namespace

Result<Job> read_job(const ReadScope& scope, const TomlValue& root) {
  Job job;
  TableReader reader(root, scope);
  visit_fields(reader, job);
  std::optional<int64_t> nodes, sequence_length;
  reader("nodes", nodes);
  reader("sequence_length", sequence_length);
  if (auto finished = reader.finish(); !finished) return tl::unexpected(finished.error());
  if (!says(root, "plan", "global_batch_size"))
    return error(fmt::format("{}:{}: [plan] has no 'global_batch_size' (it has no default); add it",
                             scope.file, root.line));
  if (nodes) job.cluster.num_nodes = *nodes;
  if (sequence_length) job.model.sequence_length = *sequence_length;
  if (auto filled = fill_defaults(scope, root, job); !filled) return tl::unexpected(filled.error());
  return job;
}

Result<Job> parse_job(const Library& library, std::string_view text, const std::string& file) {
  ReadScope scope;
  scope.library = &library;
  scope.file = file;
  TomlValue root = TPT_TRY(parse_toml(text, file));
  // A job may cite sources for the numbers it changes; it need not.
  std::erase_if(root.entries, [](const TomlEntry& entry) { return entry.key == "source"; });
  Job job = TPT_TRY(read_job(scope, root));
  if (job.name.empty()) job.name = Path(file).stem().string();
  return job;
}

Result<Job> load_job(const Library& library, const std::string& path) {
  return parse_job(library, TPT_TRY(read_file(path)), path);
}

std::string write_job(const Job& job) {
  Job copy = job;
  TableWriter writer;
  visit_fields(writer, copy);
  return writer.text();
}

std::string write_job(const Job& job, const Library& library) {
  Job copy = job;
  TableWriter writer(&library);
  visit_fields(writer, copy);
  return writer.text();
}

std::optional<std::string> by_name(const Library& library, std::string_view key,
                                   const Model& model) {
  return named(load_model, library, key, model);
}
std::optional<std::string> by_name(const Library& library, std::string_view key,
                                   const Stack& stack) {
  return named(load_stack, library, key, stack);
}
std::optional<std::string> by_name(const Library& library, std::string_view key,
                                   const OptimizerState& optimizer) {
  return named(load_optimizer, library, key, optimizer);
}

std::optional<std::string> by_name(const Library& library, std::string_view key,
                                   const Cluster& cluster) {
  Result<Cluster> held = load_cluster(library, cluster.name);
  if (!held) return std::nullopt;
  held->num_nodes = cluster.num_nodes;
  if (!(*held == cluster)) return std::nullopt;
  return fmt::format("{} = {}\nnodes = {}\n", key, toml_text(cluster.name), cluster.num_nodes);
}

bool has_fp32_residual(const Job& job) {
  const bool adds_parameters =
      job.model.biases || job.model.position_embedding == PositionEmbedding::learned;
  const bool promoted = job.stack.fsdp_promotes_residual && adds_parameters &&
                        job.plan.sharding == Sharding::parameters &&
                        job.plan.tensor_parallel_size > 1;
  return job.plan.fp32_residual || promoted;
}

}  // namespace triplepoint::spec
