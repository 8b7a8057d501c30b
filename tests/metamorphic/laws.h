// SPDX-License-Identifier: Apache-2.0
#pragma once

// Laws by what they compare, and what they allow. Each is beyond its bound by a share of the value
// before, or by kelvins.

#include <algorithm>
#include <cmath>
#include <optional>

#include "triplepoint/spec/job.h"

#include "tests/metamorphic/relation.h"

namespace triplepoint::metamorphic {

using Value = std::optional<double> (*)(const Outcome&);

inline std::optional<double> step(const Outcome& o) {
  return *o.metrics.step_time / unit::s;
}

inline std::optional<double> energy(const Outcome& o) {
  return o.metrics.energy_j;
}
inline std::optional<double> power(const Outcome& o) {
  return o.metrics.power_mean_w;
}
inline std::optional<double> mean_die(const Outcome& o) {
  return o.metrics.temperature_mean_c;
}
inline std::optional<double> hottest(const Outcome& o) {
  const auto& dies = o.metrics.temperature_per_gpu_c;
  if (dies.empty()) return std::nullopt;
  return *std::ranges::max_element(dies);
}
inline std::optional<double> mean_clock(const Outcome& o) {
  return o.metrics.sm_clock_mean_mhz;
}
/// Of the slowest device: those that wait for it cool, and may clock higher.
inline std::optional<double> lowest_clock(const Outcome& o) {
  std::optional<double> lowest;
  for (const run::DeviceSummary& device : o.run.summaries)
    if (device.sm_clock_mean_mhz && (!lowest || device.sm_clock_mean_mhz < lowest))
      lowest = device.sm_clock_mean_mhz;
  return lowest;
}
inline std::optional<double> leakage_power(const Outcome& o) {
  if (!o.metrics.energy_ledger_j.contains("leakage")) return std::nullopt;
  return o.metrics.energy_ledger_j.at("leakage") / *step(o);
}
inline std::optional<double> tokens_per_second_per_gpu(const Outcome& o) {
  return o.metrics.tokens_per_second_per_gpu;
}
inline std::optional<double> joules_per_token(const Outcome& o) {
  return o.metrics.joules_per_token;
}
inline std::optional<double> memory(const Outcome& o) {
  return most_of(o.run.memory, [](const run::MemoryUse& stage) { return stage.total() / unit::B; });
}
inline std::optional<double> model_flops(const Outcome& o) {
  return *o.run.model_flops / unit::FLOP;
}
inline std::optional<double> hardware_flops(const Outcome& o) {
  return *o.run.hardware_flops / unit::FLOP;
}
inline std::optional<double> node_energy(const Outcome& o) {
  return o.metrics.node_energy_j;
}
inline std::optional<double> exposed(const Outcome& o) {
  if (!o.metrics.exposed_communication) return std::nullopt;
  return *o.metrics.exposed_communication / unit::s;
}
inline std::optional<double> bubble(const Outcome& o) {
  if (!o.metrics.parts) return std::nullopt;
  return o.metrics.parts->bubble / unit::s;
}

/// What a rank waits for others: as bubble, or for a late peer of a collective.
inline std::optional<double> idle_by_schedule(const Outcome& o) {
  if (!o.metrics.parts) return std::nullopt;
  return (o.metrics.parts->bubble + o.metrics.parts->waiting) / unit::s;
}

/// The run's clock counts whole nanoseconds: shares of a step that say nothing.
inline double clock_resolution(const Outcome& o) {
  return 2e-9 / *step(o);
}

/// Where the better-off one runs, or the worse-off one does, the law can be asked for.
inline bool both_trained(const Outcome& a, const Outcome& b) {
  return a.trained && b.trained;
}

template <Value value>
std::optional<double> not_less(const Outcome& before, const Outcome& after) {
  if (!both_trained(before, after)) return std::nullopt;
  const auto a = value(before), b = value(after);
  if (!a || !b || *a == 0) return std::nullopt;
  return (*a - *b) / std::abs(*a) - clock_resolution(before);
}
template <Value value>
std::optional<double> not_more(const Outcome& before, const Outcome& after) {
  const auto less = not_less<value>(before, after);
  if (!less) return std::nullopt;
  return -*less - 2 * clock_resolution(before);
}
/// Kelvins.
template <Value value>
std::optional<double> not_cooler(const Outcome& before, const Outcome& after) {
  if (!both_trained(before, after)) return std::nullopt;
  const auto a = value(before), b = value(after);
  if (!a || !b) return std::nullopt;
  return *a - *b;
}
template <Value value>
std::optional<double> not_hotter(const Outcome& before, const Outcome& after) {
  const auto cooler = not_cooler<value>(before, after);
  if (!cooler) return std::nullopt;
  return -*cooler;
}
template <Value value>
std::optional<double> unchanged(const Outcome& before, const Outcome& after) {
  const auto less = not_less<value>(before, after);
  if (!less) return std::nullopt;
  return std::abs(*less + clock_resolution(before)) - clock_resolution(before);
}
/// `times` as much as before.
template <Value value, int times>
std::optional<double> is_times(const Outcome& before, const Outcome& after) {
  const auto less = not_less<value>(before, after);
  if (!less) return std::nullopt;
  return std::abs((1 - *less - clock_resolution(before)) / times - 1);
}
template <Value value, int times>
std::optional<double> at_most_times(const Outcome& before, const Outcome& after) {
  const auto less = not_less<value>(before, after);
  if (!less) return std::nullopt;
  return (1 - *less) / times - 1;
}
/// Memory is known of jobs that do not fit, too.
inline std::optional<double> needs_no_less_memory(const Outcome& before, const Outcome& after) {
  return (*memory(before) - *memory(after)) / *memory(before);
}
inline std::optional<double> needs_no_more_memory(const Outcome& before, const Outcome& after) {
  return -*needs_no_less_memory(before, after);
}
inline std::optional<double> needs_the_same_memory(const Outcome& before, const Outcome& after) {
  return std::abs(*needs_no_less_memory(before, after));
}
/// Step, energy, heat, clocks and memory, each to the last bit.
std::optional<double> same_bits(const Outcome& before, const Outcome& after);
/// The same up to rounding: the largest relative difference of any of them.
std::optional<double> same_numbers(const Outcome& before, const Outcome& after);
/// What is better off does not stop running.
inline std::optional<double> still_runs(const Outcome& before, const Outcome& after) {
  return before.trained && !after.trained ? 1 : 0;
}

/// Does power or heat choose a clock? Otherwise all run at the clock that is asked for.
inline bool is_throttled(const Outcome& o) {
  return std::ranges::any_of(o.metrics.throttle, [](const auto& each) { return each.second > 0; });
}
/// One step of the governor, as a share of the clock.
inline double clock_step_share(const Outcome& before, const Outcome& after) {
  if (!is_throttled(before) && !is_throttled(after)) return 0;
  const double step_mhz = before.job().cluster.gpu.governor->clock_step / unit::MHz;
  return step_mhz / std::min(*mean_clock(before), *mean_clock(after));
}
/// To which the solver of the steady state agrees with itself (sim/steady_state.cpp).
constexpr double settled_kelvins = 0.01;

// A board between two clock steps may take either, and a neighbour's heat or a longer wait decides
// it; where neither power nor heat sets a clock, a clock step is nothing. Kernels last as 1 /
// clock, power grows at most with clock x voltage squared, and voltage no faster than the clock: a
// step of the clock moves a step by its share, power by three of them, and a die by three of them
// of its rise over the inlet.
inline constexpr Slack one_clock_step = {clock_step_share, "one clock step"};
inline constexpr Slack power_of_one_clock_step = {
    [](const Outcome& before, const Outcome& after) {
      const Kelvins e_fold = before.job().cluster.gpu.power->leakage_e_fold;
      const double of_settling = e_fold > Kelvins() ? settled_kelvins / (e_fold / unit::K) : 0;
      return 3 * clock_step_share(before, after) + of_settling;
    },
    "power of one clock step, leakage of 0.01 K"};
inline constexpr Slack heat_of_one_clock_step = {
    [](const Outcome& before, const Outcome& after) {
      const double inlet = before.job().chassis().inlet.degrees();
      return 3 * clock_step_share(before, after) * (*hottest(before) - inlet) + settled_kelvins;
    },
    "heat of one clock step, 0.01 K"};
inline constexpr Slack solver = {[](const Outcome&, const Outcome&) { return settled_kelvins; },
                                 "0.01 K"};
inline constexpr Slack rounding = {[](const Outcome&, const Outcome&) { return 1e-12; },
                                   "rounding"};

// The laws that most relations have.
inline constexpr Law not_faster = {"not faster", not_less<step>, &one_clock_step};
inline constexpr Law not_slower = {"not slower", not_more<step>, &one_clock_step};
inline constexpr Law power_not_more = {"power not more", not_more<power>, &power_of_one_clock_step};
inline constexpr Law clocks_not_higher = {"clocks not higher", not_more<lowest_clock>,
                                          &one_clock_step};
inline constexpr Law dies_not_hotter = {"dies not hotter", not_hotter<mean_die>,
                                        &heat_of_one_clock_step};
inline constexpr Law dies_not_cooler = {"dies not cooler", not_cooler<mean_die>,
                                        &heat_of_one_clock_step};
inline constexpr Law all_the_same = {"same bits", same_bits};
inline constexpr Law runs_still = {"still runs", still_runs};

// Changes that relations of several files make first, where their laws ask for it.

inline bool is_legal(const spec::Job& job) {
  return !spec::has_errors(spec::diagnose(job));
}

/// Fans that follow the hottest device would cool all others for it.
inline bool full_fans(spec::Job& job) {
  job.cluster.chassis.fan_floor = 1;
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->fan_floor = 1;
  return true;
}

/// Every slot has its own air at full flow: no device warms or cools another.
inline bool own_air(spec::Job& job) {
  full_fans(job);
  for (spec::Slot& slot : job.cluster.chassis.slots)
    slot.upstream_heating.clear();
  if (job.cluster.liquid_chassis)
    for (spec::Slot& slot : job.cluster.liquid_chassis->slots)
      slot.upstream_heating.clear();
  return true;
}

inline bool equal_boards(spec::Job& job) {
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.chassis.inlet_spread = {};
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->inlet_spread = {};
  return true;
}

inline bool equal_boards_without_faults(spec::Job& job) {
  job.environment.faults.clear();
  return equal_boards(job);
}

/// The host launches in no time.
inline bool no_host(spec::Job& job) {
  job.stack.kernel_launch = job.stack.layer_forward_host = job.stack.layer_backward_host = {};
  job.stack.tensor_collective_host = job.stack.microbatch_gap = {};
  return true;
}

}  // namespace triplepoint::metamorphic
