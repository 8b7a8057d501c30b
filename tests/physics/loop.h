// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/power.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint {

/// One node of a cluster whose devices do the same work for ever: power, heat and clock until they
/// agree.
struct LoopResult {
  std::vector<Celsius> dies;
  std::vector<Watts> power;
  std::vector<clock::ClockChoice> clocks;
  int rounds = 0;
};

struct Loop {
  spec::Cluster cluster;
  Watts limit;
  Celsius inlet{25};
  double flow_share = 0.8;
  std::vector<power::BoardFactors> boards;  // empty: all typical

  /// load_at(clock ratio): what one second of the work asks for at that clock.
  template <class LoadAt>
  LoopResult settle(const LoadAt& load_at) const {
    const thermal::ChassisModel chassis(cluster.chassis, *cluster.gpu.thermal,
                                        cluster.gpu.dies_per_package, flow_share);
    const auto slots = as_size(chassis.slots());
    LoopResult result{.dies = std::vector<Celsius>(slots, inlet),
                      .power = std::vector<Watts>(slots),
                      .clocks = std::vector<clock::ClockChoice>(slots)};
    for (; result.rounds < 100; ++result.rounds) {
      const std::vector<Celsius> before = result.dies;
      for (size_t slot = 0; slot < slots; ++slot)
        choose(result, slot, load_at);
      const thermal::ChassisModel::State state = chassis.steady(result.power, inlet);
      for (size_t slot = 0; slot < slots; ++slot)
        result.dies[slot] = chassis.die(state, static_cast<int64_t>(slot));
      if (largest_move(result.dies, before) < 0.5) break;
    }
    hold_dies(result, chassis, load_at);
    return result;
  }

  /// Clocks of dies past their temperature go down until each is held.
  template <class LoadAt>
  void hold_dies(LoopResult& result, const thermal::ChassisModel& chassis,
                 const LoadAt& load_at) const {
    const spec::GovernorCoefficients& governor = *cluster.gpu.governor;
    const auto held = clock::held_temperature(governor);
    const Hertz top = *cluster.gpu.max_clock;
    const auto last = as_real(clock::steps_to_lowest_clock(governor, top));
    for (int round = 0; held && round < 20; ++round)
      for (size_t slot = 0; slot < result.dies.size(); ++slot) {
        std::vector<Watts> more = result.power;
        more[slot] += 1 * unit::W;
        const auto at = static_cast<int64_t>(slot);
        const Celsius die = chassis.die(chassis.steady(result.power, inlet), at);
        const Kelvins of_a_watt = chassis.die(chassis.steady(more, inlet), at) - die;
        result.dies[slot] = die;
        if (die <= *held) continue;
        const power::BoardFactors board = boards.empty() ? power::BoardFactors{} : boards[slot];
        const auto power_at = [&](double steps) {
          const double ratio = 1 - steps * (governor.clock_step / top);
          return power::gpu_power(*cluster.gpu.power, load_at(ratio), ratio, *held, board);
        };
        const Watts allowed = result.power[slot] - (die - *held) / of_a_watt * unit::W;
        const double steps = clock::ceiling_for(0, last, allowed, power_at);
        result.power[slot] = power_at(steps);
        result.clocks[slot] = {.clock = top - steps * governor.clock_step,
                               .reason = clock::heat_reason(governor, die)};
      }
  }

  /// Kelvins. A device on the edge between two clock steps may flip for ever, by less than this.
  static double largest_move(const std::vector<Celsius>& a, const std::vector<Celsius>& b) {
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i)
      largest = std::max(largest, std::abs((a[i] - b[i]) / unit::K));
    return largest;
  }

  template <class LoadAt>
  void choose(LoopResult& result, size_t slot, const LoadAt& load_at) const {
    const power::BoardFactors board = boards.empty() ? power::BoardFactors{} : boards[slot];
    const auto power_at = [&](double ratio) {
      return power::gpu_power(*cluster.gpu.power, load_at(ratio), ratio, result.dies[slot], board);
    };
    result.clocks[slot] =
        clock::choose_clock(*cluster.gpu.governor, *cluster.gpu.max_clock, limit, power_at);
    result.power[slot] = power_at(result.clocks[slot].clock / *cluster.gpu.max_clock);
  }
};

/// Products without a pause, at a rate that follows the clock.
inline auto products(FlopsPerSecond rate, BytesPerSecond traffic) {
  return [=](double clock_ratio) {
    spec::GpuLoad load;
    load.duration = load.computing = 1 * unit::s;
    load.flops[as_size(spec::OpClass::gemm)] = clock_ratio * rate * load.duration;
    load.hbm_bytes = clock_ratio * traffic * load.duration;
    return load;
  };
}

inline spec::Cluster cluster_named(const char* name) {
  return spec::load_cluster(spec::default_library(), name).value();
}

inline spec::Gpu gpu_named(const char* name) {
  return spec::load_gpu(spec::default_library(), name).value();
}

}  // namespace triplepoint
