// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/answers/results.h"

namespace triplepoint::report {
namespace {

using Value = std::optional<double>;
using answers::Better;
using metrics::Metrics;
using S = const Side&;
using Sides = std::vector<Side>;
constexpr Better less = Better::lower, more = Better::higher, any = Better::neither;
constexpr ChangeForm rel = ChangeForm::relative, absolute = ChangeForm::absolute;

/// Adds a row that at least one side knows.
void add_known(ComparedSection& section, ComparedRow row) {
  if (std::ranges::any_of(row.values, [](const Value& value) { return value && *value != 0; }))
    section.rows.push_back(std::move(row));
}

void add(ComparedSection& section, ComparedRow row, const Sides& sides, auto&& of) {
  for (const Side& side : sides)
    row.values.push_back(of(side));
  add_known(section, std::move(row));
}

/// What is recorded of a side. A recording has the kernels that something traced or marked: a class
/// of which it has none is not known, nor is what its kernels leave of a step without them.
Value recorded_number(S side, std::string_view group, std::string_view name) {
  const Value value = number_at(side.row, name);
  if (!side.is_recorded() || !value) return value;
  if (name == "samples_per_s" && side.unmarked_job_tokens()) return std::nullopt;
  const bool lacks_kernels = side.metrics().kernels.compute <= Seconds();
  if (group == "parts" || group == "overlap" || name == "kernel_total_s" ||
      name == "bubble_fraction")
    return lacks_kernels ? Value() : value;
  const bool is_class = group == "kernels" || group == "links";
  return is_class && *value == 0 ? Value() : value;
}

/// ", site"; empty where sides count energy at several places.
std::string scope_of(const Sides& sides) {
  const auto scope = [](S s) { return s.metrics().energy_scope; };
  const auto first = scope(sides.front());
  const bool same = std::ranges::all_of(sides, [&](S s) { return scope(s) == first; });
  return same ? ", " + std::string(metrics::energy_scopes[as_size(first)]) : "";
}

/// As the catalogue has it. Temperatures and shares differ by so much, other numbers by per cent.
ComparedRow row_of(const answers::Quantity& quantity) {
  const auto [unit_name, scale] = answers::shown_unit(quantity);
  const bool by_points = quantity.unit == "°C" || quantity.unit == "share";
  return {.key = std::string(quantity.name),
          .title = std::string(quantity.label),
          .unit = std::string(unit_name),
          .scale = scale,
          .better = quantity.better,
          .says = by_points ? absolute : rel};
}
ComparedRow row_of(std::string_view quantity, std::string key) {
  ComparedRow row = row_of(answers::quantity_of(quantity));
  row.key = std::move(key);
  return row;
}

/// The groups of the catalogue under one heading.
ComparedSection section_of(const char* name, const char* title,
                           std::initializer_list<std::string_view> groups, const Sides& sides) {
  ComparedSection section{name, title, {}};
  for (const answers::QuantityGroup& group : answers::quantity_groups()) {
    if (!holds(groups, group.name)) continue;
    for (const answers::Quantity& quantity : group.quantities) {
      if (quantity.type != answers::Type::number || quantity.name.empty()) continue;
      ComparedRow row = row_of(quantity);
      if (quantity.key == "joules_per_token") row.title += scope_of(sides);
      add(section, std::move(row), sides,
          [&](S s) { return recorded_number(s, group.name, quantity.name); });
    }
  }
  return section;
}

/// Of the GPUs that all sides have a reading of, where a side lacks one: else a lost sensor would
/// move a mean.
void take_common_gpus(ComparedSection& section, const Sides& sides) {
  constexpr std::pair<const char*, std::vector<double> Metrics::*> means[] = {
      {"temperature_mean_c", &Metrics::temperature_per_gpu_c},
      {"power_mean_w", &Metrics::power_per_gpu_w},
      {"sm_clock_mean_mhz", &Metrics::sm_clock_per_gpu_mhz}};
  for (const auto& [key, list] : means) {
    const auto row = std::ranges::find(section.rows, key, &ComparedRow::key);
    const std::size_t gpus = (sides.front().metrics().*list).size();
    if (row == section.rows.end() || std::ranges::any_of(sides, [&, list = list](S s) {
          return (s.metrics().*list).size() != gpus;
        }))
      continue;
    std::vector<std::size_t> common;
    bool lost = false;
    for (std::size_t g = 0; g < gpus; ++g) {
      const auto lacks = [&, list = list](S s) { return std::isnan((s.metrics().*list)[g]); };
      if (std::ranges::none_of(sides, lacks)) common.push_back(g);
      lost |= std::ranges::any_of(sides, lacks) && !std::ranges::all_of(sides, lacks);
    }
    if (!lost || common.empty()) continue;
    row->title += fmt::format(" of {} of {} GPUs", common.size(), gpus);
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const double sum =
          sum_of(common, [&](const std::size_t g) { return (sides[i].metrics().*list)[g]; });
      row->values[i] = sum / as_real(common.size());
    }
  }
}

ComparedSection heat_section(const Sides& sides) {
  ComparedSection section = section_of("heat", "Heat and clock", {"heat"}, sides);
  ComparedRow throttled = row_of("throttle_software_power_cap", "throttled");
  throttled.title = "throttled by any reason, mean of GPUs";
  add(section, std::move(throttled), sides, [](S s) {
    const std::vector<double>& each = s.metrics().throttled_per_gpu;
    return each.empty() ? Value() : Value(mean(each));
  });
  return section;
}

ComparedSection size_section(const Sides& sides) {
  ComparedSection section{"size", "Size", {}};
  add(section, {.key = "num_gpus", .title = "GPUs"}, sides,
      [](S s) { return s.row.slots.empty() ? Value() : Value(as_real(s.row.slots.size())); });
  add(section, row_of("memory_gib.total", "memory_gib"), sides,
      [](S s) { return number_at(s.row, "memory_gib.total"); });
  for (ComparedRow& row : section_of("links", "", {"links"}, sides).rows)
    section.rows.push_back(std::move(row));
  return section;
}

ComparedSection stage_section(const Sides& sides) {
  ComparedSection section{"stages", "Kernel seconds by pipeline stage", {}};
  const std::size_t most =
      most_of(sides, [](const Side& side) { return side.metrics().stages.size(); });
  for (std::size_t i = 0; i < most && most > 1; ++i) {
    const auto of_stage = [i](auto&& of) {
      return [i, of](S s) {
        const auto& stages = s.metrics().stages;
        return i < stages.size() ? Value(of(stages[i])) : Value();
      };
    };
    for (const metrics::KernelPart& kind : metrics::kernel_parts())
      add(section,
          {.key = fmt::format("stage_{}_{}_s", i, kind.key),
           .title = fmt::format("stage {}, {}", i, kind.label),
           .unit = "s",
           .better = std::string_view(kind.key) == "other" ? any : less},
          sides,
          of_stage([&](const metrics::Stage& stage) { return kind.of(stage.kernels) / unit::s; }));
  }
  return section;
}

/// An extreme of one list over GPUs.
struct GpuExtreme {
  const char *key, *title, *like;  // a quantity of the catalogue
  Better better;
  std::vector<double> Metrics::*list;
  bool highest;
};
constexpr const char *die = "temperature_c.mean", *power = "power_w.mean",
                     *clock_mean = "sm_clock_mhz.mean";
constexpr GpuExtreme gpu_extremes[] = {
    {"hottest_gpu_c", "hottest GPU, its mean", die, less, &Metrics::temperature_per_gpu_c, true},
    {"coolest_gpu_c", "coolest GPU, its mean", die, any, &Metrics::temperature_per_gpu_c, false},
    {"highest_power_gpu_w", "GPU with most power", power, any, &Metrics::power_per_gpu_w, true},
    {"lowest_power_gpu_w", "GPU with least power", power, any, &Metrics::power_per_gpu_w, false},
    {"slowest_clock_gpu_mhz", "slowest clock", clock_mean, more, &Metrics::sm_clock_per_gpu_mhz,
     false},
    {"fastest_clock_gpu_mhz", "fastest clock", clock_mean, more, &Metrics::sm_clock_per_gpu_mhz,
     true}};

std::optional<std::size_t> place_of(const GpuExtreme& extreme, const std::vector<double>& all) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!std::isnan(all[i]) &&
        (!best || (extreme.highest ? all[i] > all[*best] : all[i] < all[*best])))
      best = i;
  return best;
}

ComparedSection extremes_section(const Sides& sides) {
  ComparedSection section{"extremes", "Single GPUs", {}};
  for (const GpuExtreme& extreme : gpu_extremes) {
    ComparedRow row = row_of(extreme.like, extreme.key);
    row.title = extreme.title;
    row.better = extreme.better;
    for (const Side& side : sides) {
      const std::vector<double>& all = side.metrics().*extreme.list;
      const auto place = place_of(extreme, all);
      const auto per_node = as_size(std::max<int64_t>(1, side.row.gpus_per_node));
      row.values.push_back(place ? Value(all[*place]) : Value());
      row.whose.push_back(!place               ? ""
                          : side.is_recorded() ? "GPU " + run::device_number(side.row.gpus, *place)
                                               : fmt::format("GPU {} (GPU {} of node {})", *place,
                                                             *place % per_node, *place / per_node));
    }
    add_known(section, std::move(row));
  }
  return section;
}

/// Numbers by name: a name that a side lacks is zero where it has others.
ComparedSection named_section(const Sides& sides, ComparedSection section, const ComparedRow& like,
                              std::map<std::string, double> Metrics::*numbers) {
  std::set<std::string> names;
  for (const Side& side : sides)
    for (const auto& [name, number] : side.metrics().*numbers)
      names.insert(name);
  for (const std::string& name : names) {
    ComparedRow row = like;
    row.key = fmt::format(fmt::runtime(like.key), name);
    row.title = name;
    add(section, std::move(row), sides, [&](S s) -> Value {
      const auto& map = s.metrics().*numbers;
      if (map.empty()) return std::nullopt;
      return value_at(map, name).value_or(0.0);
    });
  }
  return section;
}

/// Of runs over time all of them, beside steps of steady states; empty where all are steady.
ComparedSection whole_section(const Sides& sides) {
  ComparedSection section{"whole", "The whole run", {}};
  if (std::ranges::none_of(sides, [](S s) { return s.whole.has_value(); })) return section;
  const auto step_s = [](S s) -> Value {
    if (!s.whole) return number_at(s.row, "step_time_s");
    return s.whole->time_per_step ? Value(*s.whole->time_per_step / unit::s) : Value();
  };
  const auto tokens = [](S s) -> Value {  // of a step
    const Metrics& m = s.metrics();
    if (!m.tokens_per_second || !m.step_time) return std::nullopt;
    return *m.tokens_per_second * (*m.step_time / unit::s);
  };
  add(section, row_of("step_time_s", "whole_step_time_s"), sides, step_s);
  add(section, row_of("tokens_per_s", "whole_tokens_per_s"), sides,
      [&](S s) { return step_s(s) && tokens(s) ? Value(*tokens(s) / *step_s(s)) : Value(); });
  add(section, row_of("temperature_c.peak", "whole_temperature_peak_c"), sides, [](S s) {
    return s.whole ? Value(s.whole->span.peak_c) : number_at(s.row, "temperature_c.peak");
  });
  add(section, row_of("power_w.mean", "whole_power_mean_w"), sides, [](S s) {
    return s.whole ? Value(s.whole->span.power_w) : number_at(s.row, "power_w.mean");
  });
  ComparedRow of_token = row_of("joules_per_token", "whole_gpu_joules_per_token");
  of_token.title += ", gpu";
  add(section, std::move(of_token), sides, [&](S s) {
    if (s.whole) return s.whole->gpu_joules_per_token;
    const Value joules = number_at(s.row, "energy_j");
    return joules && tokens(s) ? Value(*joules / *tokens(s)) : Value();
  });
  return section;
}

ComparedSection step_section(const Sides& sides) {
  ComparedSection section{"steps", "Steps", {}};
  if (std::ranges::none_of(sides, [](S s) { return s.step_s.size() > 1; })) return section;
  constexpr std::pair<const char*, double> places[] = {
      {"fastest", 0}, {"median", 0.5}, {"slowest", 1}};
  for (const auto& [name, share] : places)
    add(section,
        {.key = fmt::format("step_{}_s", name),
         .title = fmt::format("{} step", name),
         .unit = "s",
         .better = less},
        sides, [share = share](S s) {
          return s.step_s.empty() ? Value() : Value(lower_quantile(s.step_s, share));
        });
  add(section, {.key = "num_steps", .title = "steps"}, sides,
      [](S s) { return s.step_s.empty() ? Value() : Value(as_real(s.step_s.size())); });
  return section;
}

/// What a recording does not know of itself.
bool is_of_simulation(const std::string& setting) {
  constexpr std::string_view known[] = {"cooling", "faults",   "horizon",
                                        "inlet",   "producer", "seed"};
  return std::ranges::find(known, setting) != std::end(known);
}

auto differing_settings(const Sides& sides) {
  std::set<std::string> names;
  for (const Side& side : sides)
    for (const auto& [name, value] : side.settings)
      names.insert(name);
  decltype(Comparison::settings) differing;
  for (const std::string& name : names) {
    std::vector<std::optional<std::string>> values;
    std::set<std::string> known;
    for (const Side& side : sides) {
      // A recording knows nothing of its job: that is no difference.
      const bool unknown = side.settings.empty() || (side.is_recorded() && is_of_simulation(name));
      values.push_back(value_at(side.settings, name));
      if (!values.back() && !unknown) values.back() = "default";
      if (values.back()) known.insert(*values.back());
    }
    if (known.size() > 1 && name != "job") differing.emplace_back(name, std::move(values));
  }
  return differing;
}

/// Joules per token are compared in the widest scope that all sides know.
void count_alike(Sides& sides) {
  auto scope = metrics::EnergyScope::site, widest = metrics::EnergyScope::gpu;
  for (const Side& side : sides)
    if (side.metrics().joules_per_token) {
      scope = std::min(scope, side.metrics().energy_scope);
      widest = std::max(widest, side.metrics().energy_scope);
    }
  if (scope >= widest) return;
  for (Side& side : sides)
    if (side.row.metrics) metrics::count_energy_at(scope, *side.row.metrics);
}

}  // namespace

std::optional<double> Side::unmarked_job_tokens() const {
  const Metrics& m = metrics();
  if (!is_recorded() || !row.has_job || !m.tokens_per_second || !m.step_time) return std::nullopt;
  const double marked = *m.tokens_per_second * (*m.step_time / unit::s);
  const double of_job =
      as_real(row.job.plan.global_batch_size) * as_real(row.job.model.sequence_length);
  constexpr double least = 0.01;
  if (of_job <= 0 || std::abs(marked / of_job - 1) < least) return std::nullopt;
  return of_job;
}

const Metrics& Side::metrics() const {
  static const Metrics nothing;
  return row.metrics ? *row.metrics : nothing;
}

Side side_of(const run::Run& run, Metrics metrics, std::string name) {
  Side side{
      .name = std::move(name),
      .row = result_row({run.manifest.job.value_or(spec::Job()), {}}, run, std::move(metrics)),
      .fidelity = std::string(run::name_of(run.manifest.fidelity)),
      .ended = run::shutdown_text(run)};
  side.whole = answers::whole_run_of(run);
  for (const run::StepRecord& step : run.steps)
    side.step_s.push_back((step.end - step.begin) / unit::s);
  for (auto& [key, value] : answers::settings_of(run))
    side.settings.emplace(key, std::move(value));
  return side;
}

const ComparedRow* Comparison::find(const std::string& key) const {
  for (const ComparedSection& section : sections)
    for (const ComparedRow& row : section.rows)
      if (row.key == key) return &row;
  return nullptr;
}

Comparison compare_runs(Sides sides) {
  count_alike(sides);
  Comparison comparison;
  comparison.sections = {
      whole_section(sides),
      section_of("speed", "Speed", {"speed", "parts", "overlap"}, sides),
      section_of("energy", "Power and energy", {"energy"}, sides),
      heat_section(sides),
      size_section(sides),
      extremes_section(sides),
      section_of("kernels", "Kernel seconds of a GPU in one step", {"kernels"}, sides),
      stage_section(sides),
      step_section(sides),
      named_section(sides, {"throttle", "Throttling, share of time", {}},
                    row_of("throttle_software_power_cap", "throttle_{}"), &Metrics::throttle),
      named_section(sides, {"ledger", "Energy of a step by use", {}},
                    {.key = "energy_{}_j", .unit = "kJ", .scale = 1e3}, &Metrics::energy_ledger_j)};
  std::erase_if(comparison.sections, [](const auto& section) { return section.rows.empty(); });
  for (ComparedSection& section : comparison.sections)
    take_common_gpus(section, sides);
  comparison.settings = differing_settings(sides);
  comparison.sides = std::move(sides);
  return comparison;
}

}  // namespace triplepoint::report
