// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/answers/results.h"

namespace triplepoint::report {
namespace {

using Value = std::optional<double>;
using answers::Better;
using S = const Side&;
constexpr Better less = Better::lower, more = Better::higher, any = Better::neither;
constexpr ChangeForm rel = ChangeForm::relative, absolute = ChangeForm::absolute;

Value throttled(S s) {
  if (!throttled_share(s.metrics)) return std::nullopt;
  double sum = 0;
  for (const auto& [reason, share] : s.metrics.throttle)
    sum = std::max(sum, share);  // reasons overlap: the largest is a lower bound of their union
  return sum;
}

using metrics::Metrics;

bool is_known(const ComparedRow& row) {
  return std::any_of(row.values.begin(), row.values.end(),
                     [](const Value& value) { return value && *value != 0; });
}

void add_known(std::vector<ComparedRow>& rows, ComparedRow row) {
  if (is_known(row)) rows.push_back(std::move(row));
}

template <class Of>
std::vector<Value> values_of(const std::vector<Side>& sides, Of&& of) {
  std::vector<Value> values;
  values.reserve(sides.size());
  for (const Side& side : sides)
    values.push_back(side.fits_memory ? of(side) : Value());
  return values;
}

/// A row of the catalogue. Temperatures and shares differ by so much, other numbers by per cent.
ComparedRow row_of(const answers::Quantity& quantity, const std::vector<Side>& sides) {
  const auto [unit_name, scale] = answers::shown_unit(quantity);
  const bool differs_by_points = quantity.unit == "°C" || quantity.unit == "share";
  return {std::string(quantity.name),
          std::string(quantity.label),
          std::string(unit_name),
          scale,
          quantity.better,
          differs_by_points ? absolute : rel,
          values_of(sides,
                    [&](S s) { return answers::number_of(quantity.name, {.metrics = s.metrics}); }),
          {}};
}

bool is_compared(const answers::Quantity& quantity) {
  return quantity.type == answers::Type::number && !quantity.name.empty();
}

/// The groups of the catalogue under one heading.
ComparedSection section_of(const char* name, const char* title,
                           std::initializer_list<std::string_view> groups,
                           const std::vector<Side>& sides) {
  ComparedSection section{name, title, {}};
  for (const answers::QuantityGroup& group : answers::quantity_groups())
    if (std::ranges::find(groups, group.name) != groups.end())
      for (const answers::Quantity& quantity : group.quantities)
        if (is_compared(quantity)) add_known(section.rows, row_of(quantity, sides));
  return section;
}

ComparedSection heat_section(const std::vector<Side>& sides) {
  ComparedSection section = section_of("heat", "Heat and clock", {"heat"}, sides);
  add_known(section.rows, {"throttled",
                           "throttled (most frequent reason)",
                           "%",
                           0.01,
                           less,
                           absolute,
                           values_of(sides, throttled),
                           {}});
  return section;
}

ComparedSection size_section(const std::vector<Side>& sides) {
  ComparedSection section{"size", "Size", {}};
  add_known(section.rows,
            {"num_gpus",
             "GPUs",
             "",
             1,
             any,
             rel,
             values_of(sides,
                       [](S s) {
                         return s.num_gpus > 0 ? Value(static_cast<double>(s.num_gpus)) : Value();
                       }),
             {}});
  add_known(section.rows, {"memory_gib",
                           "memory of the fullest GPU",
                           "GiB",
                           1,
                           less,
                           rel,
                           values_of(sides, [](S s) { return s.memory_gib; }),
                           {}});
  for (ComparedRow& row : section_of("links", "", {"links"}, sides).rows)
    section.rows.push_back(std::move(row));
  return section;
}

Better better_of(const metrics::KernelPart& part) {
  return std::string_view(part.key) == "other" ? any : less;
}

ComparedSection kernel_section(const std::vector<Side>& sides) {
  ComparedSection section{"kernels", "Kernel seconds of a GPU in one step", {}};
  for (const metrics::KernelPart& kind : metrics::kernel_parts())
    add_known(section.rows, {fmt::format("kernel_{}_s", kind.key),
                             kind.label,
                             "s",
                             1,
                             better_of(kind),
                             rel,
                             values_of(sides,
                                       [&](S s) -> Value {
                                         if (s.metrics.kernels.total() <= Seconds())
                                           return std::nullopt;
                                         return kind.of(s.metrics.kernels) / unit::s;
                                       }),
                             {}});
  return section;
}

const metrics::Stage* stage_of(S side, std::size_t i) {
  return i < side.metrics.stages.size() ? &side.metrics.stages[i] : nullptr;
}

ComparedSection stage_section(const std::vector<Side>& sides) {
  ComparedSection section{"stages", "Kernel seconds by pipeline stage", {}};
  std::size_t most = 0;
  for (const Side& side : sides)
    most = std::max(most, side.metrics.stages.size());
  if (most < 2) return section;
  for (std::size_t i = 0; i < most; ++i) {
    for (const metrics::KernelPart& kind : metrics::kernel_parts())
      add_known(section.rows, {fmt::format("stage_{}_{}_s", i, kind.key),
                               fmt::format("stage {}, {}", i, kind.label),
                               "s",
                               1,
                               better_of(kind),
                               rel,
                               values_of(sides,
                                         [&](S s) -> Value {
                                           const metrics::Stage* stage = stage_of(s, i);
                                           if (stage == nullptr) return std::nullopt;
                                           return kind.of(stage->kernels) / unit::s;
                                         }),
                               {}});
    add_known(section.rows, {fmt::format("stage_{}_bubble_fraction", i),
                             fmt::format("stage {}, bubble", i),
                             "%",
                             0.01,
                             less,
                             absolute,
                             values_of(sides,
                                       [&](S s) -> Value {
                                         const metrics::Stage* stage = stage_of(s, i);
                                         if (stage == nullptr) return std::nullopt;
                                         return stage->bubble_fraction;
                                       }),
                             {}});
  }
  return section;
}

/// The extreme of one list over GPUs, and whose it is.
ComparedRow extreme(const std::vector<Side>& sides, ComparedRow row,
                    std::vector<double> Metrics::*list, bool highest) {
  for (const Side& side : sides) {
    const std::vector<double>& all = side.metrics.*list;
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!std::isnan(all[i]) && (!best || (highest ? all[i] > all[*best] : all[i] < all[*best])))
        best = i;
    row.values.push_back(best ? Value(all[*best]) : Value());
    const auto per_node = static_cast<std::size_t>(std::max<int64_t>(1, side.gpus_per_node));
    row.whose.push_back(
        best ? fmt::format("GPU {} (GPU {} of node {})", *best, *best % per_node, *best / per_node)
             : "");
  }
  return row;
}

ComparedSection extremes_section(const std::vector<Side>& sides) {
  ComparedSection section{"extremes", "Single GPUs", {}};
  const auto add = [&](const char* key, const char* title, const char* unit_name, Better better,
                       ChangeForm says, std::vector<double> Metrics::*list, bool highest) {
    add_known(section.rows,
              extreme(sides, {key, title, unit_name, 1, better, says, {}, {}}, list, highest));
  };
  add("hottest_gpu_c", "hottest GPU", "°C", less, absolute, &Metrics::temperature_per_gpu_c, true);
  add("coolest_gpu_c", "coolest GPU", "°C", any, absolute, &Metrics::temperature_per_gpu_c, false);
  add("highest_power_gpu_w", "GPU with most power", "W", any, rel, &Metrics::power_per_gpu_w, true);
  add("lowest_power_gpu_w", "GPU with least power", "W", any, rel, &Metrics::power_per_gpu_w,
      false);
  add("slowest_clock_gpu_mhz", "slowest clock", "MHz", more, rel, &Metrics::sm_clock_per_gpu_mhz,
      false);
  add("fastest_clock_gpu_mhz", "fastest clock", "MHz", more, rel, &Metrics::sm_clock_per_gpu_mhz,
      true);
  return section;
}

/// Maps by name, such as throttle reasons: a name that a side lacks is zero where it has others.
ComparedSection named_section(const std::vector<Side>& sides, ComparedSection section,
                              const ComparedRow& like,
                              std::map<std::string, double> Metrics::*numbers) {
  std::set<std::string> names;
  for (const Side& side : sides)
    for (const auto& [name, number] : side.metrics.*numbers)
      names.insert(name);
  for (const std::string& name : names) {
    ComparedRow row = like;
    row.key = fmt::format(fmt::runtime(like.key), name);
    row.title = name;
    row.values = values_of(sides, [&](S s) -> Value {
      const auto& map = s.metrics.*numbers;
      if (map.empty()) return std::nullopt;
      const auto found = map.find(name);
      return found == map.end() ? 0.0 : found->second;
    });
    add_known(section.rows, std::move(row));
  }
  return section;
}

ComparedSection step_section(const std::vector<Side>& sides) {
  ComparedSection section{"steps", "Steps", {}};
  const bool any_steps =
      std::any_of(sides.begin(), sides.end(), [](S s) { return s.step_s.size() > 1; });
  if (!any_steps) return section;
  const auto add = [&](const char* key, const char* title, Better better, auto of) {
    add_known(section.rows, {key,
                             title,
                             "s",
                             1,
                             better,
                             rel,
                             values_of(sides,
                                       [&](S s) -> Value {
                                         if (s.step_s.empty()) return std::nullopt;
                                         return of(s.step_s);
                                       }),
                             {}});
  };
  add("step_fastest_s", "fastest step", less, [](const auto& s) { return lower_quantile(s, 0); });
  add("step_median_s", "median step", less, [](const auto& s) { return lower_quantile(s, 0.5); });
  add("step_slowest_s", "slowest step", less, [](const auto& s) { return lower_quantile(s, 1); });
  std::vector<Value> counts;
  counts.reserve(sides.size());
  for (const Side& side : sides)
    counts.push_back(side.step_s.empty() ? Value()
                                         : Value(static_cast<double>(side.step_s.size())));
  section.rows.push_back({"num_steps", "steps", "", 1, any, rel, std::move(counts), {}});
  return section;
}

std::vector<std::pair<std::string, std::vector<std::string>>> differing_settings(
    const std::vector<Side>& sides) {
  std::set<std::string> names;
  for (const Side& side : sides)
    for (const auto& [name, value] : side.settings)
      names.insert(name);
  std::vector<std::pair<std::string, std::vector<std::string>>> differing;
  for (const std::string& name : names) {
    std::vector<std::string> values;
    values.reserve(sides.size());
    for (const Side& side : sides) {
      const auto found = side.settings.find(name);
      values.push_back(found == side.settings.end() ? "–" : found->second);
    }
    // A recording knows nothing of its job: that is no difference.
    std::set<std::string> known(values.begin(), values.end());
    known.erase("–");
    const bool equal = known.size() < 2;
    if (!equal && name != "job") differing.emplace_back(name, std::move(values));
  }
  return differing;
}

}  // namespace

Side side_of(const run::Run& run, Metrics metrics, std::string name) {
  Side side;
  side.name = std::move(name);
  side.origin = run::name_of(run.manifest.origin);
  side.fidelity = run::name_of(run.manifest.fidelity);
  side.fits_memory = run.manifest.fits_memory;
  if (!run.memory.empty())
    side.memory_gib = run.memory[metrics::fullest_stage(run.memory)].total() / unit::GiB;
  for (const run::StepRecord& step : run.steps)
    side.step_s.push_back((step.end - step.begin) / unit::s);
  side.num_gpus = static_cast<int64_t>(run.devices.size());
  int32_t most_local = -1;
  for (const run::Device& device : run.devices)
    most_local = std::max(most_local, device.local);
  if (most_local >= 0) side.gpus_per_node = most_local + 1;
  for (auto& [name, value] : answers::settings_of(run))
    side.settings.emplace(name, std::move(value));
  side.metrics = std::move(metrics);
  return side;
}

const ComparedRow* Comparison::find(const std::string& key) const {
  for (const ComparedSection& section : sections)
    for (const ComparedRow& row : section.rows)
      if (row.key == key) return &row;
  return nullptr;
}

Comparison compare_runs(std::vector<Side> sides) {
  Comparison comparison;
  comparison.sections.push_back(section_of("speed", "Speed", {"speed", "parts", "overlap"}, sides));
  comparison.sections.push_back(section_of("energy", "Power and energy", {"energy"}, sides));
  comparison.sections.push_back(heat_section(sides));
  comparison.sections.push_back(size_section(sides));
  comparison.sections.push_back(extremes_section(sides));
  comparison.sections.push_back(kernel_section(sides));
  comparison.sections.push_back(stage_section(sides));
  comparison.sections.push_back(step_section(sides));
  comparison.sections.push_back(
      named_section(sides, {"throttle", "Throttling, share of time", {}},
                    {"throttle_{}", "", "%", 0.01, less, absolute, {}, {}}, &Metrics::throttle));
  comparison.sections.push_back(named_section(sides, {"ledger", "Energy of a step by use", {}},
                                              {"energy_{}_j", "", "kJ", 1e3, any, rel, {}, {}},
                                              &Metrics::energy_ledger_j));
  std::erase_if(comparison.sections, [](const auto& section) { return section.rows.empty(); });
  comparison.settings = differing_settings(sides);
  comparison.sides = std::move(sides);
  return comparison;
}

}  // namespace triplepoint::report
