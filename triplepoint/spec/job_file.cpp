// SPDX-License-Identifier: Apache-2.0
#include <utility>

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
  const double ranks = as_real(plan.tensor_parallel_size) * as_real(plan.pipeline_parallel_size) *
                       as_real(plan.context_parallel_size);
  if (ranks < 1 || ranks > as_real(job.world_size())) return 1;
  return job.data_parallel_size();
}

/// Ranks of a context group hold the same parameters, and share their states as replicas do.
Sharding default_sharding(const Job& job) {
  const int64_t ranks = data_parallel_size_or_one(job) * job.plan.context_parallel_size;
  const bool replicas = ranks > 1 && !is_inference(job.task);
  return replicas ? Sharding::optimizer : Sharding::none;
}

/// The usual batch, or the next that the data-parallel ranks can share.
int64_t default_batch(const Job& job) {
  const int64_t at_once =
      std::max<int64_t>(1, job.plan.micro_batch_size) * data_parallel_size_or_one(job);
  return (default_global_batch + at_once - 1) / at_once * at_once;
}

/// Each setting of a job in a few words, for the note of defaults.
std::vector<std::pair<JobSetting, std::string>> setting_texts(const Job& job) {
  const Plan& plan = job.plan;
  const int64_t nodes = job.cluster.num_nodes;
  std::vector<std::pair<JobSetting, std::string>> texts = {
      {JobSetting::nodes, fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s")},
      {JobSetting::micro_batch_size, fmt::format("microbatch {}", plan.micro_batch_size)},
      {JobSetting::global_batch_size, fmt::format("batch {}", plan.global_batch_size)},
      {JobSetting::precision, std::string(enum_name(plan.precision))},
      {JobSetting::stack, fmt::format("stack {}", job.stack.name)}};
  if (is_inference(job.task)) return texts;
  texts.emplace_back(JobSetting::recompute, fmt::format("recompute {}", enum_name(plan.recompute)));
  texts.emplace_back(JobSetting::sharding, fmt::format("sharding {}", enum_name(plan.sharding)));
  texts.emplace_back(JobSetting::optimizer, fmt::format("optimizer {}", plan.optimizer.name));
  return texts;
}

/// The file of the user that the job names for its cluster, or for its base; else empty.
std::string own_cluster(const TomlValue& root) {
  const TomlValue* cluster = root.find("cluster");
  if (cluster != nullptr && cluster->is(TomlValue::Kind::table)) cluster = cluster->find("base");
  return cluster != nullptr && is_own_cluster(cluster->text) ? cluster->text : std::string();
}

/// Which settings the file has a key for.
std::set<JobSetting> settings_in(const TomlValue& root) {
  std::set<JobSetting> stated;
  const auto state = [&](JobSetting setting, bool said) {
    if (said) stated.insert(setting);
  };
  state(JobSetting::task, root.find("task") != nullptr);
  state(JobSetting::nodes, root.find("nodes") != nullptr || says(root, "cluster", "num_nodes") ||
                               !own_cluster(root).empty());
  state(JobSetting::sequence_length,
        root.find("sequence_length") != nullptr || says(root, "model", "sequence_length"));
  state(JobSetting::stack, root.find("stack") != nullptr);
  constexpr std::pair<JobSetting, std::string_view> keys[] = {
      {JobSetting::micro_batch_size, "micro_batch_size"},
      {JobSetting::global_batch_size, "global_batch_size"},
      {JobSetting::precision, "precision"},
      {JobSetting::recompute, "recompute"},
      {JobSetting::sharding, "sharding"},
      {JobSetting::optimizer, "optimizer"}};
  for (const auto& [setting, key] : keys)
    state(setting, says(root, "plan", key));
  return stated;
}

/// `nodes` goes before cluster.num_nodes, in this file or in one of a cluster.
void set_nodes(const TomlValue& root, int64_t nodes, StatedJob& read) {
  Cluster& cluster = read.job.cluster;
  const bool here = says(root, "cluster", "num_nodes");
  const std::string other = here ? "cluster.num_nodes" : own_cluster(root);
  if (!other.empty()) contest_nodes(read, {nodes, "nodes"}, {cluster.num_nodes, other});
  cluster.num_nodes = nodes;
}

Result<StatedJob> read_stated_job(const ReadScope& scope, const TomlValue& root) {
  StatedJob read;
  TableReader reader(root, scope);
  visit_fields(reader, read.job);
  JobShortcuts shortcuts;
  visit_fields(reader, shortcuts);
  if (auto finished = reader.finish(); !finished) return tl::unexpected(finished.error());
  if (shortcuts.nodes) set_nodes(root, *shortcuts.nodes, read);
  read.job.model.sequence_length =
      shortcuts.sequence_length.value_or(read.job.model.sequence_length);
  Plan& plan = read.job.plan;
  if (plan.virtual_pipeline_size > 1 && !says(root, "plan", "schedule"))
    plan.schedule = Schedule::interleaved;  // the only one that runs chunks
  if (read.job.origin.empty()) read.job.origin = scope.file;
  read.stated = settings_in(root);
  return read;
}

template <class T, class Loader>
std::optional<std::string> named(Loader load, const Library& library, std::string_view key,
                                 const T& thing) {
  const Result<T> held = load(library, thing.name);
  if (!held || !(*held == thing)) return std::nullopt;
  return fmt::format("{} = {}\n", key, toml_text(thing.name));
}

}  // namespace

Result<Job> with_defaults(const Library& library, StatedJob stated) {
  const auto left_out = [&](JobSetting setting) { return !stated.states(setting); };
  Job& job = stated.job;
  if (left_out(JobSetting::task) && job.plan.lora) job.task = Task::lora;
  if (left_out(JobSetting::nodes)) job.cluster.num_nodes = default_nodes;
  if (left_out(JobSetting::stack))
    job.stack = TPT_TRY(load_stack(library, is_inference(job.task)         ? serving_stack
                                            : job.cluster.shared_cores > 0 ? trainer_stack
                                                                           : default_stack));
  if (left_out(JobSetting::optimizer))
    job.plan.optimizer = TPT_TRY(load_optimizer(library, default_optimizer(job.stack)));
  if (left_out(JobSetting::sharding)) job.plan.sharding = default_sharding(job);
  if (left_out(JobSetting::global_batch_size)) job.plan.global_batch_size = default_batch(job);
  return std::move(job);
}

void note_defaults(Job& job, const StatedJob& stated, const std::set<JobSetting>& searched) {
  std::vector<std::string> filled;
  for (const auto& [setting, text] : setting_texts(job))
    if (!stated.states(setting) && !searched.contains(setting)) filled.push_back(text);
  filled.insert(filled.end(), stated.of_launcher.begin(), stated.of_launcher.end());
  std::string contested;
  for (const std::string& each : stated.contested)
    contested += "; " + each;
  const bool given = stated.states(JobSetting::sequence_length);
  job.notes.insert(
      job.notes.begin(),
      fmt::format("sequence length {} ({}){}{}{}", job.model.sequence_length,
                  given ? "given" : stated.length_from, filled.empty() ? "" : "; by default ",
                  fmt::join(filled, ", "), contested));
}

std::vector<std::string> assumptions_of(const Job& job) {
  return job.notes.empty() ? job.notes : std::vector(job.notes.begin() + 1, job.notes.end());
}

void contest_nodes(StatedJob& stated, const NodesOf& used, const NodesOf& unused) {
  if (used.nodes != unused.nodes)
    stated.contested.push_back(fmt::format("{} node{} ({}), not the {} of {}", used.nodes,
                                           used.nodes == 1 ? "" : "s", used.giver, unused.nodes,
                                           unused.giver));
}

StatedJob fully_stated(Job job) {
  return {.job = std::move(job),
          .stated = {JobSetting::task, JobSetting::nodes, JobSetting::sequence_length,
                     JobSetting::micro_batch_size, JobSetting::global_batch_size,
                     JobSetting::precision, JobSetting::recompute, JobSetting::sharding,
                     JobSetting::stack, JobSetting::optimizer}};
}

Result<Job> read_job(const ReadScope& scope, const TomlValue& root) {
  return with_defaults(*scope.library, TPT_TRY(read_stated_job(scope, root)));
}

Result<StatedJob> parse_stated_job(const Library& library, std::string_view text,
                                   const std::string& file) {
  ReadScope scope;
  scope.library = &library;
  scope.file = file;
  TomlValue root = TPT_TRY(parse_toml(text, file));
  // A job may cite sources for the numbers it changes; it need not.
  std::erase_if(root.entries, [](const TomlEntry& entry) { return entry.key == "source"; });
  StatedJob stated = TPT_TRY(read_stated_job(scope, root));
  if (stated.job.name.empty()) stated.job.name = Path(file).stem().string();
  return stated;
}

Result<Job> parse_job(const Library& library, std::string_view text, const std::string& file) {
  return with_defaults(library, TPT_TRY(parse_stated_job(library, text, file)));
}

Result<StatedJob> load_stated_job(const Library& library, const std::string& path) {
  return parse_stated_job(library, TPT_TRY(read_file(path)), path);
}

Result<Job> load_job(const Library& library, const std::string& path) {
  return with_defaults(library, TPT_TRY(load_stated_job(library, path)));
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
                                   const Records& records) {
  return named(load_records, library, key, records);
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
