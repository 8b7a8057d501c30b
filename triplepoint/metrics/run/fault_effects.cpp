// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/fault_effects.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/fault.h"

namespace triplepoint::metrics {
namespace {

constexpr Seconds longest_before = 60 * unit::s;
constexpr double min_step_time_change = 0.01, max_slowed_clock_ratio = 0.98;

struct TimeRange {
  Seconds begin, end;
  bool empty() const { return end <= begin; }
};

Seconds seconds_of(Instant instant) {
  return instant - Instant();
}

/// Values whose stamps lie behind `begin` and not behind `end`: each tells the time before its
/// stamp.
void over(const run::Series* series, const TimeRange& stretch, auto fold) {
  if (!series) return;
  const Instant begin = instant_at(stretch.begin), end = instant_at(stretch.end);
  for (size_t i = 0; i < series->times.size(); ++i) {
    const Instant at = series->times[i];
    if (at <= begin || at > end) continue;
    const Instant since = i > 0 ? std::max(begin, series->times[i - 1]) : begin;
    fold(series->values[i], (at - since) / unit::s);
  }
}

double mean_over(const run::Series* series, const TimeRange& stretch) {
  double sum = 0, time = 0;
  over(series, stretch, [&](double value, double seconds) {
    sum += value * seconds;
    time += seconds;
  });
  return time > 0 ? sum / time : 0;
}

/// At its end: what came before is the temperature that a fault has not yet changed.
double last_over(const run::Series* series, const TimeRange& stretch) {
  double last = 0;
  over(series, stretch, [&](double value, double) { last = value; });
  return last;
}

double highest_over(const run::Series* series, const TimeRange& stretch) {
  double highest = -std::numeric_limits<double>::infinity();
  over(series, stretch, [&](double value, double) { highest = std::max(highest, value); });
  return std::isfinite(highest) ? highest : 0;
}

std::vector<DeviceSpan> devices_over(const run::Run& run, const TimeRange& stretch) {
  std::vector<DeviceSpan> devices;
  const run::SeriesIndex series(run);
  for (const run::Device& device : run.devices) {
    if (!series.find("power_w", device.index) && !series.find("sm_clock_mhz", device.index))
      return {};
    const run::Series* die = series.find("die_c", device.index);
    devices.push_back({.power_w = mean_over(series.find("power_w", device.index), stretch),
                       .clock_mhz = mean_over(series.find("sm_clock_mhz", device.index), stretch),
                       .die_c = last_over(die, stretch),
                       .die_peak_c = highest_over(die, stretch)});
  }
  return devices;
}

/// All but the steps.
FaultSpan span_of(const std::vector<DeviceSpan>& devices, const TimeRange& stretch) {
  FaultSpan span{.begin = stretch.begin, .end = stretch.end, .steps = 0};
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceSpan& device = devices[d];
    const auto index = static_cast<int64_t>(d);
    span.power_w = span.power_w.value_or(0) + device.power_w / as_real(devices.size());
    span.clock_mhz = span.clock_mhz.value_or(0) + device.clock_mhz / as_real(devices.size());
    if (d == 0 || device.die_peak_c > span.peak_c) span.peak_c = device.die_peak_c;
    if (d == 0 || device.die_c > span.hottest_c)
      span.hottest = index, span.hottest_c = device.die_c;
    if (d == 0 || device.clock_mhz < span.slowest_mhz)
      span.slowest = index, span.slowest_mhz = device.clock_mhz;
  }
  return span;
}

std::optional<FaultSpan> span_of(const run::Run& run, const TimeRange& stretch,
                                 std::vector<DeviceSpan>& devices) {
  if (stretch.empty()) return std::nullopt;
  devices = devices_over(run, stretch);
  FaultSpan span = span_of(devices, stretch);
  const double seconds = (stretch.end - stretch.begin) / unit::s;
  if (span.power_w) span.energy_j = *span.power_w * as_real(devices.size()) * seconds;
  for (const run::Series& series : run.series)
    if (series.of_node && series.signal == "node_energy_j")
      if (const auto joules =
              run::counter_difference(series, instant_at(stretch.begin), instant_at(stretch.end)))
        span.node_energy_j = span.node_energy_j.value_or(0) + *joules;
  Seconds ended, whole;
  int64_t wholes = 0;
  const Instant begin = instant_at(stretch.begin), end = instant_at(stretch.end);
  for (const run::StepRecord& step : run.steps) {
    const Seconds length = step.end - step.begin;
    if (step.end <= begin || step.end > end) continue;
    ++span.steps;
    ended += length;
    if (step.begin < begin) continue;
    ++wholes;
    whole += length;
  }
  if (wholes > 0)  // a step that was on its way when it began tells of both
    span.step_time = whole / as_real(wholes);
  else if (span.steps > 0)
    span.step_time = ended / as_real(span.steps);
  return span;
}

/// Not later than `last`; of a lost node, until it is back.
Seconds end_of(const spec::Fault& fault, Seconds last) {
  if (fault.kind == spec::FaultKind::node_lost) return std::min(last, fault.begin + fault.restart);
  return std::min(last, fault.end.value_or(last));
}

/// Where the fault-free time before a fault begins: not before the end of another one.
Seconds fault_free_begin(const std::vector<spec::Fault>& faults, const spec::Fault& fault) {
  Seconds begin = std::max(Seconds(), fault.begin - longest_before);
  for (const spec::Fault& other : faults) {
    const Seconds end = end_of(other, fault.begin);
    if (other.begin < fault.begin && end <= fault.begin) begin = std::max(begin, end);
  }
  return begin;
}

/// Where the fault-free time after a fault ends: not after the beginning of another one.
Seconds fault_free_end(const std::vector<spec::Fault>& faults, Seconds end, Seconds last) {
  for (const spec::Fault& other : faults)
    if (other.begin >= end) last = std::min(last, other.begin);
  return last;
}

Seconds length_of(const run::Run& run) {
  Seconds end = run.numbers.duration_s.value_or(0) * unit::s;
  if (!run.steps.empty()) end = std::max(end, seconds_of(run.steps.back().end));
  for (const run::Series& series : run.series)
    if (!series.times.empty()) end = std::max(end, seconds_of(series.times.back()));
  return end;
}

std::optional<int64_t> find_waited_for(const FaultEffect& effect) {
  const double longer = slowdown(effect).value_or(0);
  if (!effect.during || longer < min_step_time_change) return std::nullopt;
  const std::vector<double> clocks = mapped(effect.devices_during, &DeviceSpan::clock_mhz);
  if (clocks.empty()) return std::nullopt;
  const double others = upper_median(clocks);
  if (*effect.during->slowest_mhz >= max_slowed_clock_ratio * others) return std::nullopt;
  // Where a fault slows all of them, the slowest explains but the rest.
  if (others < (1 + 0.5 * longer) * *effect.during->slowest_mhz) return std::nullopt;
  const std::vector<DeviceSpan>& baseline =
      effect.devices_before.empty() ? effect.devices_after : effect.devices_before;
  const auto slowest = as_size(effect.during->slowest);
  const bool slowed =
      slowest < baseline.size() &&
      *effect.during->slowest_mhz < max_slowed_clock_ratio * baseline[slowest].clock_mhz;
  return slowed ? std::optional(effect.during->slowest) : std::nullopt;
}

std::vector<DeviceSpan> devices_of(const run::Run& run) {
  std::vector<DeviceSpan> devices;
  for (const run::DeviceSummary& summary : run.summaries) {
    if (!summary.power_mean_w && !summary.sm_clock_mean_mhz) return {};
    const double die_c = summary.die_peak_c.value_or(summary.die_mean_c.value_or(0));
    devices.push_back({.power_w = summary.power_mean_w.value_or(0),
                       .clock_mhz = summary.sm_clock_mean_mhz.value_or(0),
                       .die_c = die_c,
                       .die_peak_c = die_c});
  }
  return devices;
}

FaultSpan steady_span(const run::Run& run, const std::vector<DeviceSpan>& devices) {
  FaultSpan span = span_of(devices, {});
  if (run.steps.empty()) return span;
  span.steps = 1;
  span.step_time = run.steps.back().end - run.steps.back().begin;
  return span;
}

Json span_json(const std::optional<FaultSpan>& span, const std::vector<DeviceSpan>& devices) {
  if (!span) return {};
  const auto known = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json json = {{"begin_s", span->begin / unit::s},
               {"end_s", span->end / unit::s},
               {"steps", span->steps},
               {"step_s", span->step_time ? Json(*span->step_time / unit::s) : Json()},
               {"power_w", known(span->power_w)},
               {"hottest_c", known(span->hottest_c)},
               {"temperature_peak_c", known(span->peak_c)},
               {"energy_j", known(span->energy_j)},
               {"node_energy_j", known(span->node_energy_j)},
               {"hottest_gpu", span->power_w ? Json(span->hottest) : Json()},
               {"sm_clock_mhz", known(span->clock_mhz)},
               {"slowest_mhz", known(span->slowest_mhz)},
               {"slowest_gpu", span->power_w ? Json(span->slowest) : Json()}};
  if (!devices.empty()) json["gpus"] = Json::array();
  for (const DeviceSpan& device : devices)
    json["gpus"].push_back({{"power_w", device.power_w},
                            {"die_c", device.die_c},
                            {"die_peak_c", device.die_peak_c},
                            {"sm_clock_mhz", device.clock_mhz}});
  return json;
}

/// When the run ends, or heat ends it.
Seconds last_of(const run::Run& run) {
  const Seconds last = length_of(run);
  return run.shutdown && run.shutdown->time ? std::min(last, *run.shutdown->time) : last;
}

}  // namespace

std::vector<FaultPhase> fault_phases_of(const run::Run& run) {
  std::vector<FaultPhase> phases;
  if (run.manifest.origin != run::Origin::simulated || !run.manifest.job || run.steps.size() < 2)
    return phases;
  const auto add = [&](std::string name, const std::optional<FaultSpan>& span) {
    if (span) phases.push_back({std::move(name), *span});
  };
  std::vector<DeviceSpan> devices;
  std::optional<FaultSpan> whole = span_of(run, {Seconds(), last_of(run)}, devices);
  // Series have the ends of windows; what dies reach within a step stands beside them.
  if (whole && whole->peak_c)
    for (const run::DeviceSummary& summary : run.summaries)
      whole->peak_c = std::max(*whole->peak_c, summary.die_peak_c.value_or(*whole->peak_c));
  add("whole run", whole);
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  const std::vector<FaultEffect> effects = fault_effects(run);
  for (size_t f = 0; f < effects.size(); ++f) {
    const std::string name = spec::to_text(faults[f]);
    add("before " + name, effects[f].before);
    add("during " + name, effects[f].during);
    add((faults[f].period ? "after the first " : "after ") + name, effects[f].after);
  }
  return phases;
}

Json phases_json(const std::vector<FaultPhase>& phases) {
  Json all = Json::array();
  for (const FaultPhase& phase : phases) {
    all.push_back(span_json(phase.span, {}));
    all.back()["phase"] = phase.name;
  }
  return all;
}

std::vector<FaultEffect> fault_effects(const run::Run& run) {
  std::vector<FaultEffect> effects;
  if (!run.manifest.job) return effects;
  const Seconds last = last_of(run);
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  for (const spec::Fault& fault : faults) {
    const Seconds end = end_of(fault, last);
    FaultEffect& effect = effects.emplace_back();
    if (fault.begin >= last) continue;
    effect.before =
        span_of(run, {fault_free_begin(faults, fault), fault.begin}, effect.devices_before);
    effect.during = span_of(run, {fault.begin, end}, effect.devices_during);
    effect.after = span_of(run, {end, fault_free_end(faults, end, last)}, effect.devices_after);
    effect.waited_for = find_waited_for(effect);
  }
  return effects;
}

std::vector<spec::Fault> others_within(const std::vector<spec::Fault>& faults,
                                       const spec::Fault& fault, const FaultEffect& effect) {
  std::vector<spec::Fault> others;
  const auto& baseline = effect.before && effect.before->step_time ? effect.before : effect.after;
  for (const spec::Fault& other : faults)
    for (const auto& span : {baseline, effect.during})
      if (&other != &fault && span && other.begin < span->end &&
          end_of(other, span->end) > span->begin) {
        others.push_back(other);
        break;
      }
  return others;
}

FaultEffect steady_effect(const run::Run& without, const run::Run& with) {
  FaultEffect effect;
  effect.devices_before = devices_of(without);
  effect.devices_during = devices_of(with);
  effect.before = steady_span(without, effect.devices_before);
  effect.during = steady_span(with, effect.devices_during);
  effect.waited_for = find_waited_for(effect);
  return effect;
}

std::optional<double> slowdown(const FaultEffect& effect) {
  const auto& baseline = effect.before && effect.before->step_time ? effect.before : effect.after;
  if (!baseline || !baseline->step_time || !effect.during || !effect.during->step_time)
    return std::nullopt;
  return *effect.during->step_time / *baseline->step_time - 1;
}

std::vector<int64_t> most_affected(const FaultEffect& effect, size_t most) {
  const std::vector<DeviceSpan>& baseline =
      effect.devices_before.empty() ? effect.devices_after : effect.devices_before;
  if (baseline.size() != effect.devices_during.size()) return {};
  std::vector<int64_t> order(baseline.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto change = [&](int64_t device) {
    const auto d = as_size(device);
    const DeviceSpan& now = effect.devices_during[d];
    const double clock = std::round(std::abs(now.clock_mhz - baseline[d].clock_mhz));
    return std::pair(clock, std::abs(now.die_c - baseline[d].die_c));
  };
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return change(a) > change(b); });
  order.resize(std::min(order.size(), most));
  return order;
}

Json fault_json(const std::string& fault, const FaultEffect& effect) {
  const std::optional<double> longer = slowdown(effect);
  return {{"fault", fault},
          {"slowdown", longer ? Json(*longer) : Json()},
          {"waited_for_gpu", effect.waited_for ? Json(*effect.waited_for) : Json()},
          {"before", span_json(effect.before, effect.devices_before)},
          {"during", span_json(effect.during, effect.devices_during)},
          {"after", span_json(effect.after, effect.devices_after)}};
}

std::string names_of(const std::vector<spec::Fault>& faults) {
  return joined(mapped(faults, [](const spec::Fault& fault) { return spec::to_text(fault); }), " ");
}

Json faults_json(const run::Run& run, const run::Run* without) {
  Json all = Json::array();
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  if (!run::has_trained(run) || (without && !run::has_trained(*without))) return all;
  if (without) {
    all.push_back(fault_json(names_of(faults), steady_effect(*without, run)));
    return all;
  }
  const std::vector<FaultEffect> effects = fault_effects(run);
  for (size_t f = 0; f < faults.size(); ++f)
    all.push_back(fault_json(spec::to_text(faults[f]), effects[f]));
  return all;
}

}  // namespace triplepoint::metrics
