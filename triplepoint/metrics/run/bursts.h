// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

/// Whether a window is all there is, or repeats for ever, as a step in steady state does.
enum class Course { once, periodic };

/// A GPU cools down where its die is clearly below its level for longer than the quick parts of its
/// package need to follow the power.
///
///   level  = 90 % quantile of the readings
///   begins where T <= level - depth, after T has been at the level
///   ends   where T >= level - depth / 2, or with the window
///   counts if it lasts at least `shortest`
///
/// depth: five steps of the 1 °C in which NVML and AMD SMI tell die temperatures, so that neither
/// rounding nor noise of a reading makes a cool-down. shortest: die, lid and base of a heat sink
/// have time constants of up to 2 s (data/calibrations); a shorter fall does not reach its fins.
/// Holds where readings are no further apart than `shortest`; a longer gap ends a cool-down and is
/// no time of the window.
inline constexpr double cool_down_depth_k = 5;
inline constexpr Seconds shortest_cool_down = 2 * unit::s;

struct DeviceCoolDowns {
  int64_t count = 0;
  double share_of_time = 0;
  Seconds time;           // in all cool-downs
  double largest_fall_k;  // below the level, however short
};
/// Of a series of temperatures; nothing where fewer than three readings lie in the window, or where
/// they are too far apart.
std::optional<DeviceCoolDowns> find_cool_downs(const run::Series& die_c, run::Extent window,
                                               Course);

/// How unevenly a GPU draws power.
///
///   swing     = Q95 - Q5 of the readings
///   ramp up   = max (P(u) - P(t)) / (u - t),   u: the first reading at least 0.1 s after t
///   ramp down = max (P(t) - P(u)) / (u - t)
///   duty      = share of the time with P >= 0.9 limit
///
/// 0.1 s is the update period of NVML's power readings. Readings that are further apart show
/// smaller ramps, and readings that a sensor averages smaller swings.
inline constexpr Seconds ramp_time = 0.1 * unit::s;
inline constexpr double duty_level = 0.9;

struct DeviceBursts {
  double swing_w = 0, ramp_up_w_per_s = 0, ramp_down_w_per_s = 0;
  std::optional<double> duty;  // absent without a limit
};
/// Of a series of powers; nothing where fewer than ten readings lie in the window.
std::optional<DeviceBursts> measure_bursts(const run::Series& power, run::Extent window,
                                           std::optional<double> limit_w);

}  // namespace triplepoint::metrics
