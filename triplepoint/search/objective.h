// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/economics/bill.h"

namespace triplepoint::search {

enum class Goal { throughput, energy, edp, cost };
std::string_view name_of(Goal);
std::optional<Goal> goal_named(std::string_view);

/// Cost of a step, less is better. Never falls with time or energy, so that bounds of both
/// give a bound of it.
///
///   throughput  t;   energy  E;   edp  E t;   cost  rate t + price E;   E = at_rest t + share D
///
/// D: joules that devices draw; E: of the scope that energy counts in, a line in D: at_rest: watts
/// that it draws beside them, share: joules of it per joule of theirs. rate: money per second for
/// all devices; price: money per joule of E. Both are metrics/bill.h's.
struct Objective {
  Goal goal = Goal::throughput;
  double rate = 0, price = 0;
  double at_rest = 0, share = 1;
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;
  double value(double time, double device_energy) const {
    return value_of(time, at_rest * time + share * device_energy);
  }
  double value_of(double time, double energy) const;
};

/// What a plan must not exceed, at thermal steady state. Absent: anything goes.
struct Limits {
  std::optional<Celsius> temperature;                        // hottest die
  std::optional<Watts> device_power;                         // peak
  std::optional<Watts> node_power, total_power, site_power;  // mean over a step; all nodes; x PUE
  std::optional<Watts> scope_power;  // of whatever energy counts in: one of the above
  Bytes headroom;                    // of the device's memory that must stay free
};

/// "1.2 MW" of what energy counts in, or "gpu=600 W,node=8 kW,cluster=1 MW,site=1.3 MW".
Result<void> parse_power(std::string_view text, search::Limits& limits);

/// "4 GB", or "5%" of what a device has.
struct Headroom {
  Bytes bytes;
  double share = 0;
  Bytes of(Bytes memory) const { return bytes + share * memory; }
};
Result<Headroom> parse_headroom(std::string_view text);

/// The job with sizes that fit any cluster: what the search chooses must not stop it from being
/// looked at.
spec::Job without_layout(const spec::Job& job);

/// Cost of a step, from the cost of a second and of a joule at these rates.
search::Objective objective_of(search::Goal goal, const spec::Job& job,
                               const metrics::BillRates& rates, metrics::EnergyScope scope);

/// Joules of a step in the scope, by what its devices draw (J) and a mean node at the wall (W).
double energy_in(metrics::EnergyScope, const spec::Job&, double device_energy, double node_power,
                 double time);

/// Power of a whole job in the scope while a device draws so much on average.
Watts scope_power(metrics::EnergyScope, const spec::Job&, Watts device_power);

}  // namespace triplepoint::search
