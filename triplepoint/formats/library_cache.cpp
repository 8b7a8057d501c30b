// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/library_cache.h"

#include <algorithm>
#include <set>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using Severity = spec::Diagnosis::Severity;

constexpr std::string_view assumed_cluster = "hgx-h200";

/// "h200", "mi250", "nvl72": what tells machines apart in names, unlike "sweep" or "5".
bool names_hardware(std::string_view word) {
  return std::ranges::any_of(word, is_digit) && !std::ranges::all_of(word, is_digit);
}

/// Of several machines with one GPU the board maker's plain one: "hgx-h100" before "dgx-h100",
/// "dgx-a100" before "dgx-a100-40gb".
bool is_plainer(const std::string& a, const std::string& b) {
  const bool a_is_hgx = a.starts_with("hgx-"), b_is_hgx = b.starts_with("hgx-");
  return a_is_hgx != b_is_hgx ? a_is_hgx : a.size() < b.size();
}

/// A cluster that shares such a word with the text: "sweep-h100-fsdp" finds "hgx-h100".
std::optional<std::string> cluster_named_in(std::string_view text,
                                            const std::vector<std::string>& clusters) {
  std::optional<std::string> best;
  for (const std::string& word : words_of(text)) {
    if (best || !names_hardware(word)) continue;
    for (const std::string& cluster : clusters) {
      const std::vector<std::string> parts = words_of(cluster);
      const bool shares = holds(parts, word);
      if (shares && (!best || is_plainer(cluster, *best))) best = cluster;
    }
  }
  return best;
}

/// The cluster that the features of a constraint or the names of a partition mean; several, of
/// which the scheduler takes any, are an error.
std::optional<std::string> cluster_of_choice(LibraryCache& cache, Settings& settings,
                                             const char* option, std::string choice) {
  const bool any = contains(choice, '|') || option == std::string_view("--partition");
  std::ranges::replace_if(
      choice, [](char c) { return c == '&' || c == ','; }, '|');
  std::set<std::string> found;
  for (const std::string& part : split(choice, '|'))
    if (const auto cluster = cluster_named_in(part, cache.cluster_names()))
      found.insert(*cluster);
    else if (any)
      found.insert("");
  if (found.size() > 1)
    settings.diagnoses().push_back(
        {DiagnosisCode::inconsistent, Severity::error,
         fmt::format("{}: {} '{}' leaves the kind of GPU open; give --cluster", settings.file(),
                     option, choice.substr(0, 60))});
  return found.empty() || found.rbegin()->empty() ? std::nullopt : std::optional(*found.rbegin());
}

std::string choose_cluster(LibraryCache& cache, Settings& settings, const ImportHints& hints,
                           const MachineFacts& facts) {
  if (hints.cluster) return *hints.cluster;
  if (facts.cluster) return *facts.cluster;
  std::string unnamed = "the file does not name its GPUs";
  if (const auto& script = hints.job_script) {
    if (script->gpu_type) {
      if (auto found = cluster_named_in(*script->gpu_type, cache.cluster_names())) return *found;
      unnamed = fmt::format("no cluster of the library has GPUs '{}'", *script->gpu_type);
    }
    if (auto found = cluster_of_choice(cache, settings, "--constraint", script->constraint))
      return *found;
    if (auto found = cluster_of_choice(cache, settings, "--partition", script->partition)) {
      settings.assume(
          fmt::format("{}: cluster {} after --partition {}", unnamed, *found, script->partition));
      return *found;
    }
  }
  if (auto found = cluster_named_in(settings.file(), cache.cluster_names())) {
    settings.assume(fmt::format("{}: cluster {} after its path", unnamed, *found));
    return *found;
  }
  settings.assume(
      fmt::format("{}: cluster {}; give --cluster for another", unnamed, assumed_cluster));
  return std::string(assumed_cluster);
}

/// The node count of the job script, 0 without one.
int64_t nodes_of_script(const ImportHints& hints) {
  return hints.job_script ? hints.job_script->num_nodes.value_or(0) : 0;
}

void set_devices(Settings& settings, const ImportHints& hints, const MachineFacts& facts,
                 spec::Cluster& cluster) {
  const BatchRequest batch = hints.job_script.value_or(JobScript());
  std::optional<int64_t> devices = facts.gpus_per_node;
  if (!devices && facts.has_tasks) devices = batch.tasks_per_node;
  const auto asked = batch.gpus_per_node;
  if (devices && asked && *devices < *asked)
    settings.assume(fmt::format(
        "of the {} GPUs a node that the batch lines ask for {} have a process", *asked, *devices));
  if (devices && asked && *devices > *asked)
    settings.note(DiagnosisCode::inconsistent, Severity::error, facts.gpus_key,
                  fmt::format("{} processes a node, but the batch lines ask for {} GPUs of each "
                              "(each process has one); make them equal",
                              *devices, *asked));
  if (!devices) devices = asked;
  if (!devices && batch.num_gpus) devices = std::min(*batch.num_gpus, cluster.gpus_per_node);
  const int64_t nodes = facts.num_nodes.value_or(nodes_of_script(hints));
  if (!devices && nodes == 0 && facts.processes < cluster.gpus_per_node)
    devices = facts.processes;  // on one node; nothing where there is no number
  if (facts.processes && nodes > 0) {
    if (!devices) devices = std::max<int64_t>(1, *facts.processes / nodes);
    if (*devices * nodes != *facts.processes)
      return settings.note(
          DiagnosisCode::inconsistent, Severity::error, facts.nodes_key,
          fmt::format("{} processes do not fill {} nodes of {} devices (each device has one); "
                      "correct the numbers",
                      *facts.processes, nodes, *devices));
  }
  if (!devices || *devices == cluster.gpus_per_node) return;
  if (*devices >= 1 && *devices < cluster.gpus_per_node)
    return spec::use_devices(cluster, *devices);
  settings.note(DiagnosisCode::inconsistent, Severity::error, facts.gpus_key,
                fmt::format("{} devices per node, but a node of {} has {}; choose another cluster",
                            *devices, cluster.name, cluster.gpus_per_node));
}

void set_nodes(Settings& settings, const ImportHints& hints, const MachineFacts& facts,
               spec::StatedJob& stated) {
  spec::Cluster& cluster = stated.job.cluster;
  const int64_t script = nodes_of_script(hints);
  int64_t file = facts.num_nodes.value_or(0);
  auto all = facts.processes;
  if (!all && hints.job_script) all = hints.job_script->num_gpus;
  if (all && file == 0 && script == 0) {
    file = *all / cluster.gpus_per_node;
    if (file * cluster.gpus_per_node != *all)
      settings.note(DiagnosisCode::inconsistent, Severity::error, facts.nodes_key,
                    fmt::format("{} processes do not fill nodes of {} devices; give --nodes and a "
                                "cluster with as many devices a node",
                                *all, cluster.gpus_per_node));
    else if (!hints.num_nodes)
      settings.assume(fmt::format("{} process{} on nodes of {} GPUs: {} node{}", *all,
                                  *all == 1 ? "" : "es", cluster.gpus_per_node, file,
                                  file == 1 ? "" : "s"));
  }
  const int64_t nodes = hints.num_nodes.value_or(file > 0 ? file : script);
  const bool own = hints.cluster && spec::is_own_cluster(*hints.cluster);
  if (nodes > 0 || own) stated.stated.insert(spec::JobSetting::nodes);
  if (hints.job_script)
    for (const BatchRequest::Problem& problem : hints.job_script->problems)
      if ((problem.of_nodes && nodes == 0 && !own) || (problem.of_devices && !hints.cluster))
        settings.diagnoses().push_back(
            {DiagnosisCode::inconsistent, Severity::error, problem.what});
  if (hints.num_nodes && (file > 0 || script > 0))
    spec::contest_nodes(stated, {nodes, "--nodes"}, {file > 0 ? file : script, "the file"});
  else if (nodes > 0 && own)
    spec::contest_nodes(stated, {nodes, "the file"}, {cluster.num_nodes, *hints.cluster});
  if (nodes > 0) {
    cluster.num_nodes = nodes;
  } else if (!own) {
    cluster.num_nodes = spec::default_nodes;
    if (!facts.has_ranks)
      settings.assume(fmt::format("the file has no number of nodes: {}; give --nodes for another",
                                  cluster.num_nodes));
  }
  if (file > 0 && script > 0 && file != script)
    settings.note(DiagnosisCode::node_count_mismatch, Severity::error, facts.nodes_key,
                  fmt::format("{} is {}, but the job script asks for {} nodes (the trainer refuses "
                              "to start); make them equal",
                              facts.nodes_key, file, script));
}

/// The model with what no launch file has words for as the library has it, where the two are alike
/// in all else but the sequence length; else nothing.
std::optional<spec::Model> adopted(const spec::Model& model, const spec::Model& known) {
  spec::Model same = model;
  same.name = known.name;
  same.published_parameters = known.published_parameters;
  same.published_active_parameters = known.published_active_parameters;
  // A module for further tokens that is not trained has no word in a launch file, and needs none.
  if (known.prediction_depths() == 0) same.multi_token_prediction = known.multi_token_prediction;
  same.sequence_length = known.sequence_length;
  if (!(same == known)) return std::nullopt;
  same.sequence_length = model.sequence_length;
  return same;
}

}  // namespace

Result<spec::Cluster> LibraryCache::cluster(const std::string& name) {
  return get_or_make(clusters_, name, [&] { return spec::load_cluster(library_, name); });
}

Result<spec::Stack> LibraryCache::stack(const std::string& name) {
  return get_or_make(stacks_, name, [&] { return spec::load_stack(library_, name); });
}

Result<spec::OptimizerState> LibraryCache::optimizer(const std::string& name) {
  return get_or_make(optimizers_, name, [&] { return spec::load_optimizer(library_, name); });
}

std::optional<spec::Model> LibraryCache::model(const std::string& name) {
  const auto known = models_.find(name);
  if (known != models_.end()) return known->second;
  // A name from a file must not become a path.
  const bool plain = name.find_first_of("/\\") == name.npos && !name.starts_with('.');
  std::optional<spec::Model> model;
  if (plain)
    if (auto loaded = spec::load_model(library_, name)) model = *loaded;
  return models_.emplace(name, std::move(model)).first->second;
}

const std::vector<std::string>& LibraryCache::cluster_names() {
  if (!cluster_names_) cluster_names_ = spec::list_clusters(library_);
  return *cluster_names_;
}

const std::vector<std::string>& LibraryCache::model_names() {
  if (!model_names_) model_names_ = spec::list_models(library_);
  return *model_names_;
}

Result<void> set_cluster_and_stack(LibraryCache& cache, Settings& settings,
                                   const ImportHints& hints, const MachineFacts& facts,
                                   spec::StatedJob& stated) {
  spec::Job& job = stated.job;
  if (hints.job_script)
    for (const std::string& remark : hints.job_script->remarks)
      settings.assume(remark);
  job.cluster = TPT_TRY(cache.cluster(choose_cluster(cache, settings, hints, facts)));
  set_devices(settings, hints, facts, job.cluster);
  set_nodes(settings, hints, facts, stated);
  const std::string stack =
      hints.stack   ? *hints.stack
      : facts.stack ? *facts.stack
                    : std::string(facts.profiled ? facts.profiled_stack : facts.plain_stack);
  job.stack = TPT_TRY(cache.stack(stack));
  stated.stated.insert(spec::JobSetting::stack);
  if (!hints.stack && !facts.stack)
    stated.of_launcher.push_back(fmt::format("stack {}", job.stack.name));
  return {};
}

std::optional<spec::Model> model_of_shape(LibraryCache& cache, const spec::Model& model,
                                          std::string_view place) {
  std::optional<spec::Model> first;
  for (const std::string& name : cache.model_names()) {
    const auto known = cache.model(name);
    const auto same = known ? adopted(model, *known) : std::nullopt;
    if (same && contains(place, name)) return same;
    if (same && !first) first = same;
  }
  return first;
}

void adopt_names(LibraryCache& cache, const std::optional<std::string>& optimizer, spec::Job& job) {
  if (const auto known = cache.model(job.model.name))
    if (const auto same = adopted(job.model, *known)) job.model = *same;
  if (!optimizer) return;
  const auto known = cache.optimizer(*optimizer);
  if (!known) return;
  spec::OptimizerState same = job.plan.optimizer;
  same.name = known->name;
  if (same == *known) job.plan.optimizer = same;
}

}  // namespace triplepoint::formats
