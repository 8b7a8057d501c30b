// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/groups.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <tuple>

#include <fmt/format.h>

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
  return static_cast<std::size_t>(std::find(variant_order.begin(), variant_order.end(), variant) -
                                  variant_order.begin());
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
    const auto found = std::find(layouts.begin(), layouts.end(), label);
    places.push_back({static_cast<std::size_t>(found - layouts.begin()), variant_rank(*row),
                      row->job.plan.micro_batch_size, row});
    if (found == layouts.end()) layouts.push_back(label);
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.layout, a.variant, a.microbatch) <
           std::tie(b.layout, b.variant, b.microbatch);
  });
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = places[i].row;
}

}  // namespace

std::vector<const StudyRow*> Group::that_ran() const {
  std::vector<const StudyRow*> ran;
  for (const StudyRow* row : rows)
    if (row->metrics) ran.push_back(row);
  return ran;
}

std::vector<const StudyRow*> all_that_ran(const std::vector<Group>& groups) {
  std::vector<const StudyRow*> all;
  for (const Group& group : groups)
    std::ranges::copy(group.that_ran(), std::back_inserter(all));
  return all;
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
  std::string text;
  for (char c : variant)
    text += c == '+' ? std::string(" + ") : std::string(1, c);
  return text;
}

std::vector<Group> groups_of(const Study& study) {
  std::vector<Group> groups;
  for (const StudyRow& row : study.rows) {
    const std::string title = group_title(row);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.title == title; });
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
  return scope == metrics::EnergyScope::gpu
             ? "GPU"
             : std::string(metrics::energy_scopes[static_cast<std::size_t>(scope)]);
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
  if (row.job.plan.micro_batch_size != 1 || !new_variant) {
    label += fmt::format("{}mbs {}", label.empty() ? "" : " ", row.job.plan.micro_batch_size);
  }
  // Seconds of a step compare only within a batch.
  return label + row.batch;
}

std::string variant_style(const StudyRow& row) {
  return fmt::format("v{}", std::min<std::size_t>(variant_rank(row), variant_order.size()));
}

std::optional<double> ratio_at(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const auto above = number_at(row, key), below = number_at(over, key);
  if (!above || !below || !(*above > 0) || !(*below > 0)) return std::nullopt;
  return *above / *below;
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

}  // namespace triplepoint::report
