// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "triplepoint/base/units.h"

namespace triplepoint::search {

enum class Goal { throughput, energy, edp, cost };
std::string_view name_of(Goal);
std::optional<Goal> goal_named(std::string_view);

/// Cost of a step, less is better. Never falls with time or energy, so that bounds of both
/// give a bound of it.
///
///   throughput  t;   energy  E;   edp  E t;   cost  rate t + price E
///
/// rate: money per second for all devices; price: money per joule that devices draw, with what the
/// building adds to it. Both are metrics/bill.h's.
struct Objective {
  Goal goal = Goal::throughput;
  double rate = 0, price = 0;
  double value(double time, double energy) const;
};

/// What a plan must not exceed, at thermal steady state. Absent: anything goes.
struct Limits {
  std::optional<Celsius> temperature;                          // hottest die
  std::optional<Watts> device_power, node_power, total_power;  // mean over a step
  Bytes headroom;  // of the device's memory that must stay free
};

}  // namespace triplepoint::search
