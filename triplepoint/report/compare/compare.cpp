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

#include "triplepoint/metrics/run/results_json.h"

namespace triplepoint::report {
namespace {

/// A number that every run may know.
struct ComparedQuantity {
  const char *key, *title, *unit;
  double scale;
  Better better;
  ChangeForm says;
  std::optional<double> (*of)(const Side&);
};
struct QuantitySection {
  const char *name, *title;
  std::vector<ComparedQuantity> quantities;
};

using Value = std::optional<double>;

Value in_seconds(const std::optional<Seconds>& time) {
  if (time) return *time / unit::s;
  return std::nullopt;
}

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

Value per_gpu_power(S s) {
  return s.metrics.power_mean_w;
}

QuantitySection speed_quantities() {
  return {"speed",
          "Speed",
          {{"step_time_s", "step time", "s", 1, less, rel,
            [](S s) { return in_seconds(s.metrics.step_time); }},
           {"tokens_per_s", "speed", "tokens/s", 1, more, rel,
            [](S s) { return s.metrics.tokens_per_second; }},
           {"tokens_per_s_per_gpu", "speed of a GPU", "tokens/s", 1, more, rel,
            [](S s) { return s.metrics.tokens_per_second_per_gpu; }},
           {"samples_per_s", "speed in sequences", "samples/s", 1, more, rel,
            [](S s) { return s.metrics.samples_per_second; }},
           {"mfu", "MFU", "%", 0.01, more, absolute, [](S s) { return s.metrics.mfu; }},
           {"hfu", "HFU", "%", 0.01, any, absolute, [](S s) { return s.metrics.hfu; }},
           {"bubble_fraction", "bubble", "%", 0.01, less, absolute,
            [](S s) { return s.metrics.bubble_fraction; }},
           {"exposed_communication_s", "exposed communication", "s", 1, less, rel,
            [](S s) { return in_seconds(s.metrics.exposed_communication); }},
           {"waiting_s", "waiting for late peers", "s", 1, less, rel,
            [](S s) -> Value {
              if (!s.metrics.parts) return std::nullopt;
              return s.metrics.parts->waiting / unit::s;
            }},
           {"overlapped_communication_s", "overlapped communication", "s", 1, any, rel,
            [](S s) { return in_seconds(s.metrics.overlapped_communication); }},
           {"idle_s", "idle", "s", 1, less, rel, [](S s) { return in_seconds(s.metrics.idle); }},
           {"launch_gaps_s", "launch gaps", "s", 1, less, rel,
            [](S s) { return in_seconds(s.metrics.launch_gaps); }}}};
}

QuantitySection energy_quantities() {
  return {"energy",
          "Power and energy",
          {{"joules_per_token", "energy of a token", "J", 1, less, rel,
            [](S s) { return s.metrics.joules_per_token; }},
           {"energy_j", "energy of a step", "MJ", 1e6, less, rel,
            [](S s) { return s.metrics.energy_j; }},
           {"node_energy_j", "energy of a step, nodes", "MJ", 1e6, less, rel,
            [](S s) { return s.metrics.node_energy_j; }},
           {"samples_per_s_mj", "efficiency", "samples/(s MJ)", 1, more, rel,
            [](S s) { return s.metrics.samples_per_s_mj; }},
           {"power_mean_w", "power of a GPU, mean", "W", 1, any, rel, per_gpu_power},
           {"power_peak_w", "power of a GPU, peak", "W", 1, less, rel,
            [](S s) { return s.metrics.power_peak_w; }},
           {"power_kernel_peak_w", "power of the most power-hungry kernel", "W", 1, less, rel,
            [](S s) { return s.metrics.power_kernel_peak_w; }}}};
}

QuantitySection heat_quantities() {
  return {
      "heat",
      "Heat and clock",
      {{"temperature_mean_c", "temperature, mean", "°C", 1, less, absolute,
        [](S s) { return s.metrics.temperature_mean_c; }},
       {"temperature_peak_c", "temperature, peak", "°C", 1, less, absolute,
        [](S s) { return s.metrics.temperature_peak_c; }},
       {"hot_mean_c", "hot slots", "°C", 1, less, absolute,
        [](S s) { return s.metrics.hot_mean_c; }},
       {"cool_mean_c", "cool slots", "°C", 1, less, absolute,
        [](S s) { return s.metrics.cool_mean_c; }},
       {"hottest_over_coolest", "hottest over coolest GPU", "", 1, less, rel,
        [](S s) { return s.metrics.hottest_over_coolest; }},
       {"sm_clock_mean_mhz", "SM clock, mean", "MHz", 1, more, rel,
        [](S s) { return s.metrics.sm_clock_mean_mhz; }},
       {"throttled", "throttled (most frequent reason)", "%", 0.01, less, absolute, throttled}}};
}

QuantitySection size_quantities() {
  return {"size",
          "Size",
          {{"num_gpus", "GPUs", "", 1, any, rel,
            [](S s) { return s.num_gpus > 0 ? Value(static_cast<double>(s.num_gpus)) : Value(); }},
           {"memory_gib", "memory of the fullest GPU", "GiB", 1, less, rel,
            [](S s) { return s.memory_gib; }},
           {"scale_up_bytes", "sent inside the node, a GPU", "GiB", 1024.0 * 1024 * 1024, less, rel,
            [](S s) { return Value(s.metrics.links.scale_up / unit::B); }},
           {"scale_out_bytes", "sent between nodes, a GPU", "GiB", 1024.0 * 1024 * 1024, less, rel,
            [](S s) { return Value(s.metrics.links.scale_out / unit::B); }}}};
}

/// Those that are compared, by the section in which they are shown.
const std::vector<QuantitySection>& compared_quantities() {
  static const std::vector<QuantitySection> all = {speed_quantities(), energy_quantities(),
                                                   heat_quantities(), size_quantities()};
  return all;
}

using metrics::KernelSeconds;
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

ComparedSection plain_section(const QuantitySection& of, const std::vector<Side>& sides) {
  ComparedSection section{of.name, of.title, {}};
  for (const ComparedQuantity& q : of.quantities)
    add_known(section.rows,
              {q.key, q.title, q.unit, q.scale, q.better, q.says, values_of(sides, q.of), {}});
  return section;
}

struct KernelPartKind {
  const char *key, *title;
  Seconds (*of)(const KernelSeconds&);
  Better better;
};
constexpr KernelPartKind kernel_kinds[] = {
    {"compute", "compute", [](const KernelSeconds& k) { return k.compute; }, less},
    {"memory", "norms, elementwise, optimizer", [](const KernelSeconds& k) { return k.memory; },
     less},
    {"send_recv", "send/recv", [](const KernelSeconds& k) { return k.send_recv; }, less},
    {"all_reduce", "all-reduce", [](const KernelSeconds& k) { return k.all_reduce; }, less},
    {"all_gather", "all-gather", [](const KernelSeconds& k) { return k.all_gather; }, less},
    {"reduce_scatter", "reduce-scatter", [](const KernelSeconds& k) { return k.reduce_scatter; },
     less},
    {"all_to_all", "all-to-all", [](const KernelSeconds& k) { return k.all_to_all; }, less},
    {"other", "other", [](const KernelSeconds& k) { return k.other; }, any},
    {"waiting", "waiting inside communication", [](const KernelSeconds& k) { return k.waiting; },
     less},
    {"total", "all kernels", [](const KernelSeconds& k) { return k.total(); }, less}};

ComparedSection kernel_section(const std::vector<Side>& sides) {
  ComparedSection section{"kernels", "Kernel seconds of a GPU in one step", {}};
  for (const KernelPartKind& kind : kernel_kinds)
    add_known(section.rows, {fmt::format("kernel_{}_s", kind.key),
                             kind.title,
                             "s",
                             1,
                             kind.better,
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
    for (const KernelPartKind& kind : kernel_kinds)
      add_known(section.rows, {fmt::format("stage_{}_{}_s", i, kind.key),
                               fmt::format("stage {}, {}", i, kind.title),
                               "s",
                               1,
                               kind.better,
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
    side.memory_gib = run.memory[metrics::worst_stage(run)].total() / unit::GiB;
  for (const run::StepRecord& step : run.steps)
    side.step_s.push_back((step.end - step.begin) / unit::s);
  side.num_gpus = static_cast<int64_t>(run.devices.size());
  int32_t most_local = -1;
  for (const run::Device& device : run.devices)
    most_local = std::max(most_local, device.local);
  if (most_local >= 0) side.gpus_per_node = most_local + 1;
  const Json json = metrics::results_json(run, metrics);
  for (const auto& [key, value] : json["configuration"].items())
    if (!value.is_null())
      side.settings[key] = value.is_string() ? value.get<std::string>() : json_text(value, -1);
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
  for (const QuantitySection& section : compared_quantities())
    comparison.sections.push_back(plain_section(section, sides));
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
