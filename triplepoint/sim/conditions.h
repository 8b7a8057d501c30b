// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::sim {

/// What limits and faults leave of a cluster at one moment.
struct Conditions {
  std::vector<Watts> power_limit;       // per device
  std::vector<int64_t> locked_steps;    // per device: clock steps below the maximum
  std::vector<double> sink_factor;      // per device: of the sink's resistance
  std::vector<double> scale_up_share;   // per device: of its links' bandwidth
  std::vector<double> scale_out_share;  // per node
  std::vector<double> host_factor;      // per node: of the host's time
  std::vector<double> flow_limit;       // per node: most of the full flow
  std::vector<Kelvins> inlet_rise;      // per node
  friend bool operator==(const Conditions&, const Conditions&) = default;
};

/// With the faults that are on at this moment. Several of a kind add up: shares and factors
/// multiply, rises sum.
Conditions conditions_at(const spec::Job&, Seconds now);
/// With those that were there from the beginning and have no end, as a steady state knows them.
Conditions lasting_conditions(const spec::Job&);

/// On the way from the first to the second, by `share`; locked clocks are the first's.
Conditions between(const Conditions&, const Conditions&, double share);

/// A fault that a steady state shows: from the beginning, for good, without pauses.
bool is_lasting(const spec::Fault&);

/// The next moment after `now` at which a fault begins, ends or flaps. What is on does not change
/// in between. A lost node's restart counts as the fault's end.
std::optional<Seconds> next_change(const spec::Job&, Seconds now);

/// Of a node that is lost at this very moment: how long training is paused, and how much of it was
/// not in a checkpoint (they lie `period` apart; without it only the running step is lost).
struct Loss {
  Seconds restart, uncovered;
};
std::optional<Loss> loss_at(const spec::Job&, Seconds now);

}  // namespace triplepoint::sim
