// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/groups.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/run/prediction_interval.h"

namespace triplepoint::report {
namespace {

constexpr std::size_t longest_name = 28;  // what charts have room for
constexpr std::array<std::string_view, 6> variant_order = {
    "base", "recompute", "selective", "overlap", "recompute+overlap", "selective+overlap"};

std::string shortened(const std::string& name) {
  return name.size() > longest_name ? name.substr(0, longest_name - 1) + "…" : name;
}

/// Options of a job inside its group, whose title says the task.
std::string variant_in_group(const StudyRow& row) {
  std::string variant = answers::variant_label(row.job);
  if (row.job.task == spec::Task::pretrain) return variant;
  variant.erase(0, spec::name_of(row.job.task).size());
  if (variant.starts_with('+')) variant.erase(0, 1);
  return variant.empty() ? "base" : variant;
}

std::size_t variant_rank(const StudyRow& row) {
  const std::string variant = variant_in_group(row);
  return as_size(std::ranges::find(variant_order, variant) - variant_order.begin());
}

std::string spelled_variant(const StudyRow& row) {
  const std::string options = options_label(row);
  return options.empty() ? "" : " + " + options;
}

std::string spelled_condition(const StudyRow& row) {
  return row.condition.empty() ? "" : ", " + row.condition;
}

/// Layouts keep the order in which the study names them.
void sort_rows(std::vector<const StudyRow*>& rows) {
  std::vector<std::string> layouts;
  struct Place {
    std::size_t layout, variant;
    int64_t microbatch;
    const StudyRow* row;
  };
  std::vector<Place> places;
  for (const StudyRow* row : rows) {
    const std::string label = layout_label(*row);
    const auto found = std::ranges::find(layouts, label);
    places.push_back({as_size(found - layouts.begin()), variant_rank(*row),
                      row->job.plan.micro_batch_size, row});
    if (found == layouts.end()) layouts.push_back(label);
  }
  std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
    return std::tie(a.layout, a.variant, a.microbatch) <
           std::tie(b.layout, b.variant, b.microbatch);
  });
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = places[i].row;
}

}  // namespace

std::vector<const StudyRow*> Group::that_ran() const {
  return filtered(rows, [](const StudyRow* row) { return row->metrics; });
}

std::string identifier(std::string_view text) {
  std::string id;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      id += static_cast<char>(std::tolower(byte));
    else if (!id.empty() && id.back() != '-')
      id += '-';
  }
  return id;
}

std::string anchor_of(std::string_view chart, const StudyRow& row) {
  return fmt::format("{}-{}", chart, identifier(group_title(row)));
}

std::string machine_title(const StudyRow& row) {
  if (!row.has_job && !row.inferred_machine.empty()) return row.inferred_machine;
  if (!row.has_job && row.slots.empty()) return "machine not known";
  if (!row.has_job) return fmt::format("{} GPUs", row.slots.size());
  const std::string label = answers::group_label(row.job) + spelled_condition(row);
  return label.substr(row.job.model.name.size() + std::string_view(" on ").size());
}

std::string model_title(const StudyRow& row) {
  if (!row.has_job) return "";
  if (row.job.task == spec::Task::pretrain) return row.job.model.name;
  return fmt::format("{} ({})", row.job.model.name, spec::name_of(row.job.task));
}

std::string group_title(const StudyRow& row) {
  if (!row.has_job) return machine_title(row) + ", job not known";
  return answers::group_label(row.job) + spelled_condition(row) + answers::task_label(row.job);
}

std::string layout_label(const StudyRow& row) {
  return row.has_job ? answers::configuration_label(row.job) : row.name;
}

std::string options_label(const StudyRow& row) {
  const std::string variant = row.has_job ? variant_in_group(row) : "base";
  if (variant == "base") return "";
  return joined(
      mapped(variant, [](char c) { return c == '+' ? std::string(" + ") : std::string(1, c); }),
      "");
}

std::vector<Group> groups_of(const Study& study) {
  std::vector<Group> groups;
  for (const StudyRow& row : study.rows) {
    const std::string title = group_title(row);
    auto group = std::ranges::find(groups, title, &Group::title);
    if (group == groups.end()) group = groups.insert(groups.end(), {identifier(title), title, {}});
    group->rows.push_back(&row);
  }
  for (Group& group : groups)
    sort_rows(group.rows);
  return groups;
}

std::string full_label(const StudyRow& row) {
  if (!row.has_job) return row.name;
  return layout_with_options(row) + ", " + microbatch_name(row) + row.batch;
}

std::string energy_scope_of(const StudyRow& row) {
  const auto scope = row.metrics ? row.metrics->energy_scope : metrics::EnergyScope::gpu;
  return scope == metrics::EnergyScope::gpu ? "GPU"
                                            : std::string(metrics::energy_scopes[as_size(scope)]);
}

bool has_fault(const StudyRow& row) {
  return row.has_job && !row.job.environment.faults.empty();
}

bool is_tight(const StudyRow& row) {
  static const Result<metrics::PredictionIntervals> intervals = [] {
    const Result<spec::Library> library = spec::require_library();
    return library ? metrics::PredictionIntervals::load(*library) : tl::unexpected(library.error());
  }();
  if (!intervals || !row.has_job || spec::is_inference(row.job.task) || row.memory.empty() ||
      !row.memory_limit || row.origin != run::Origin::simulated)
    return false;
  return row.memory[*worst_stage(row)].total() >
         (1 - intervals->memory_headroom()) * *row.memory_limit;
}

std::string short_label(const StudyRow& row) {
  if (!row.has_job) return row.name;
  return fmt::format("{}, mbs {}{}", layout_with_options(row), row.job.plan.micro_batch_size,
                     row.batch);
}

std::string microbatch_name(const StudyRow& row) {
  return fmt::format("microbatch {}", row.job.plan.micro_batch_size);
}

std::string layout_with_options(const StudyRow& row) {
  return layout_label(row) + spelled_variant(row);
}

bool overlaps(const StudyRow& row) {
  const spec::Plan& plan = row.job.plan;
  return plan.overlap_tensor || plan.overlap_gradient || plan.overlap_parameter ||
         plan.overlap_pipeline || plan.overlap_expert;
}

bool begins_layout(const StudyRow& row, const StudyRow* above) {
  return above == nullptr || layout_label(row) != layout_label(*above);
}

std::string label_below(const StudyRow& row, const StudyRow* above) {
  if (!row.has_job) return shortened(row.name);
  const bool new_layout = begins_layout(row, above);
  // Alike in all that labels say (a sweep of NICs, of seeds): only the job's name tells them apart.
  if (!new_layout && answers::variant_label(row.job) == answers::variant_label(above->job) &&
      row.job.plan.micro_batch_size == above->job.plan.micro_batch_size) {
    return shortened(row.name);
  }
  const bool new_variant =
      new_layout || answers::variant_label(row.job) != answers::variant_label(above->job);
  std::string label;
  if (new_layout) label = layout_label(row);
  if (new_variant) label += spelled_variant(row);
  if (!new_layout && label.empty() && new_variant) label = "base";
  if (label.starts_with(" ")) label.erase(0, 1);
  if (row.job.plan.micro_batch_size != 1 || !new_variant)
    label += fmt::format("{}mbs {}", label.empty() ? "" : " ", row.job.plan.micro_batch_size);
  return label;
}

std::string variant_style(const StudyRow& row) {
  return fmt::format("v{}", std::min<std::size_t>(variant_rank(row), variant_order.size()));
}

namespace {

/// What settings say, once per job: jobs are compared by the square of their number.
struct Settings {
  const StudyRow* row = nullptr;
  std::string layout;
  int64_t microbatch = 1;
  std::pair<spec::Recompute, std::optional<int64_t>> recompute;
  std::array<bool, 5> overlap{};
  std::vector<int64_t> device_order;
  std::optional<spec::PipelineSends> sends;
};

Settings settings_of(const StudyRow& row) {
  const spec::Plan& plan = row.job.plan;
  return {&row,
          answers::configuration_label(row.job),
          plan.micro_batch_size,
          {plan.recompute, plan.recompute_layers},
          {plan.overlap_tensor, plan.overlap_gradient, plan.overlap_parameter,
           plan.overlap_pipeline, plan.overlap_expert},
          plan.device_order,
          plan.sends};
}

/// Nothing that no setting turns differs. A layout brings its own sharding, its layers per stage,
/// and which overlaps mean something.
bool same_otherwise(const spec::Job& a, const spec::Job& b, bool same_layout) {
  const spec::Plan &p = a.plan, &q = b.plan;
  if (p.global_batch_size != q.global_batch_size || p.precision != q.precision ||
      p.schedule != q.schedule || p.rank_order != q.rank_order || p.lora != q.lora ||
      p.record_layout != q.record_layout || a.records != b.records)
    return false;
  if (same_layout && (p.sharding != q.sharding || p.sequence_parallel != q.sequence_parallel ||
                      p.layers_per_stage != q.layers_per_stage || p.optimizer != q.optimizer))
    return false;
  return a.model == b.model && a.stack == b.stack && a.environment == b.environment &&
         a.cluster == b.cluster;
}

/// With another layout, overlap is the same wish if both want some or none.
bool wants_same_overlap(const Settings& a, const Settings& b, bool same_layout) {
  if (same_layout) return a.overlap == b.overlap;
  const auto wants = [](const Settings& s) { return s.overlap != std::array<bool, 5>{}; };
  return wants(a) == wants(b);
}

std::optional<PlanSetting> only_difference(const Settings& a, const Settings& b) {
  std::vector<PlanSetting> turned;
  const bool same_layout = a.layout == b.layout;
  if (!same_layout) turned.push_back(PlanSetting::layout);
  if (a.microbatch != b.microbatch) turned.push_back(PlanSetting::microbatch);
  if (a.recompute.first != b.recompute.first ||
      (same_layout && a.recompute.second != b.recompute.second))
    turned.push_back(PlanSetting::recompute);
  if (!wants_same_overlap(a, b, same_layout)) turned.push_back(PlanSetting::overlap);
  if (a.device_order != b.device_order) turned.push_back(PlanSetting::placement);
  if (a.sends != b.sends) turned.push_back(PlanSetting::sends);
  if (turned.size() != 1 || !same_otherwise(a.row->job, b.row->job, same_layout))
    return std::nullopt;
  return turned.front();
}

}  // namespace

std::vector<Pair> pairs_of(const Group& group) {
  std::vector<Settings> all;
  for (const StudyRow* row : group.rows)
    if (row->has_job && row->verdict != Verdict::invalid) all.push_back(settings_of(*row));
  std::vector<Pair> pairs;
  for (const Settings& a : all)
    for (const Settings& b : all)
      if (&a != &b)
        if (const auto setting = only_difference(a, b)) pairs.push_back({a.row, b.row, *setting});
  return pairs;
}

std::vector<Pair> pairs_that_ran(const std::vector<Group>& groups, PlanSetting setting) {
  std::vector<Pair> ran;
  for (const Group& group : groups)
    for (const Pair& pair : pairs_of(group))
      if (pair.setting == setting && pair.from->metrics && pair.to->metrics) ran.push_back(pair);
  return ran;
}

std::optional<Pair> strongest(const std::vector<Pair>& pairs, const PairValue& value) {
  std::optional<Pair> best;
  double best_value = 0;
  for (const Pair& pair : pairs) {
    const auto own = value(pair);
    if (own && (!best || *own > best_value)) best = pair, best_value = *own;
  }
  return best;
}

std::optional<double> ratio_at(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const auto above = number_at(row, key), below = number_at(over, key);
  if (!above || !below || !(*above > 0) || !(*below > 0)) return std::nullopt;
  return *above / *below;
}

std::optional<double> ratio_at(const Pair& pair, std::string_view key) {
  return ratio_at(*pair.to, *pair.from, key);
}

const StudyRow* highest(const std::vector<const StudyRow*>& rows, std::string_view key) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows) {
    const auto value = number_at(*row, key);
    if (value && (best == nullptr || *value > known_number(*best, key))) best = row;
  }
  return best;
}

const StudyRow* lowest(const std::vector<const StudyRow*>& rows, std::string_view key) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows) {
    const auto value = number_at(*row, key);
    if (value && (best == nullptr || *value < known_number(*best, key))) best = row;
  }
  return best;
}

namespace {

std::string inlet_of(const spec::Job& job) {
  return fmt::format("inlet {:.3g} °C", job.chassis().inlet.degrees());
}

std::string cooling_of(const spec::Job& job) {
  return std::string(spec::enum_name(job.chassis().cooling));
}

std::string limit_of(const spec::Job& job) {
  return fmt::format("{:.4g} W", job.power_limit() / unit::W);
}

std::string nics_of(const spec::Job& job) {
  const spec::ScaleOut& out = job.cluster.scale_out;
  return fmt::format("{} x {:.4g} Gb/s", out.nics_per_node,
                     out.nic_bandwidth * (1 * unit::s) / unit::Gb);
}

std::string fabric_of(const spec::Job& job) {
  const spec::ScaleOut& out = job.cluster.scale_out;
  std::string words(spec::enum_name(out.kind));
  std::ranges::replace(words, '_', ' ');
  if (out.oversubscription > 1) words += fmt::format(" {:.3g}:1", out.oversubscription);
  return words;
}

std::string domain_of(const spec::Job& job) {
  return fmt::format("domain of {}", job.cluster.scale_up.domain_size);
}

std::string name_of_cluster(const spec::Job& job) {
  return job.cluster.title.empty() ? job.cluster.name : job.cluster.title;
}

std::string faults_of(const spec::Job& job) {
  const std::vector<std::string> faults = mapped(
      job.environment.faults, [](const spec::Fault& f) { return "fault " + spec::to_text(f); });
  return faults.empty() ? "no fault" : joined(faults);
}

using Property = std::string (*)(const spec::Job&);
// An own cooling brings its inlet, so it is asked first.
constexpr std::array<Property, 7> properties = {cooling_of, inlet_of,  limit_of, nics_of,
                                                fabric_of,  domain_of, faults_of};

/// Repeats with other seeds are of one place.
bool same_place(const spec::Job& a, const spec::Job& b) {
  spec::Environment other = b.environment;
  other.seed = a.environment.seed;
  return a.cluster == b.cluster && a.environment == other;
}

bool differ(const std::vector<StudyRow*>& rows, Property property) {
  std::set<std::string> words;
  for (const StudyRow* row : rows)
    words.insert(property(row->job));
  return words.size() > 1;
}

/// The told properties in words; where the words do not tell two places apart, the cluster's own.
void tell(const std::vector<StudyRow*>& rows, const std::vector<Property>& told) {
  std::map<std::string, const StudyRow*> first;
  bool ambiguous = false;
  for (StudyRow* row : rows) {
    for (const Property property : told)
      row->condition += (row->condition.empty() ? "" : ", ") + property(row->job);
    const auto [at, is_new] = first.try_emplace(row->condition, row);
    ambiguous = ambiguous || (!is_new && !same_place(at->second->job, row->job));
  }
  if (!ambiguous) return;
  for (StudyRow* row : rows)
    row->condition += (row->condition.empty() ? "" : ", ") + name_of_cluster(row->job);
}

}  // namespace

void label_conditions(Study& study) {
  std::map<std::string, std::vector<StudyRow*>> machines;
  std::map<std::string, std::set<int64_t>> batches;
  for (StudyRow& row : study.rows) {
    row.condition.clear(), row.batch.clear();
    if (!row.has_job) continue;
    machines[machine_title(row)].push_back(&row);
    batches[group_title(row)].insert(row.job.plan.global_batch_size);
  }
  for (StudyRow& row : study.rows)
    if (row.has_job && batches[group_title(row)].size() > 1)
      row.batch = fmt::format(", batch {}", row.job.plan.global_batch_size);
  std::vector<Property> told;
  for (const Property property : properties)
    if (std::ranges::any_of(machines,
                            [&](const auto& machine) { return differ(machine.second, property); }))
      told.push_back(property);
  for (const auto& [title, rows] : machines)
    tell(rows, told);
}

}  // namespace triplepoint::report
