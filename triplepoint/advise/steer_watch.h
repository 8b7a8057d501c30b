// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer_moves.h"

namespace triplepoint::advise {

/// Faults that explain how readings differ from a baseline of the same machine.
///
///   R_d    = (die_d - inlet_n) / P_d, before the fault: the device's thermal path to the air
///   rise_n = median over a node's devices of (die_d - R_d P_d) now, less the inlet
///   path_d = (die_d - inlet_n - rise_n) / (R_d P_d) now
///   power_d = P_d now, where the device itself runs slower than before the fault and no heat holds
///             it, or where the hardware's brake does
///
/// Braked devices tell nothing of air and paths: they work far from where their path was seen.
/// Rises above 2 K, paths 15 % worse and power 4 % lower at clocks 3 % lower count; the rest is
/// noise. Where all of a node are held at some power, the median is the node's. Holds for readings
/// of thermal equilibrium, about a minute. What neither heat nor power explains (hosts, links) is
/// not found.
std::vector<spec::Fault> explain(const spec::Job&, const SteerReadings& baseline,
                                 const SteerReadings& now);

struct Alarm {
  Seconds time;
  std::string seen;                 // "step time 12.1 % up; GPU 9 at 78 °C"
  std::vector<spec::Fault> faults;  // that explain it
};

/// Watches a job on a real machine. The first window is the baseline; one that differs from it, or
/// from the one of the last alarm, is an alarm.
class Watcher {
 public:
  explicit Watcher(const spec::Job& job) : job_(job) {}

  /// Windows come in order; one without a whole step or without readings says nothing.
  std::optional<Alarm> look(const run::Run&, run::Extent window);
  bool has_baseline() const { return baseline_.has_value(); }

 private:
  spec::Job job_;
  std::optional<SteerReadings> baseline_, before_;
};

}  // namespace triplepoint::advise
