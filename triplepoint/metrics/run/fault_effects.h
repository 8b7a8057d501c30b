// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

/// How a job went over some time.
struct FaultSpan {
  Seconds begin, end;
  int64_t steps = 0;                 // that ended in it
  std::optional<Seconds> step_time;  // their mean; absent: none ended
  // Absent where power, heat and clocks are not modelled: mean of the devices; of any die at the
  // end, highest; mean clock, of one device.
  std::optional<double> power_w, hottest_c, peak_c, clock_mhz, slowest_mhz;
  // Of all devices, and behind the nodes' supplies; absent of a steady state, too.
  std::optional<double> energy_j, node_energy_j;
  int64_t hottest = 0, slowest = 0;  // devices
};

struct DeviceSpan {
  double power_w = 0, clock_mhz = 0;  // means
  double die_c = 0, die_peak_c = 0;   // at the end, highest; of a steady state both its highest
};

/// What one fault did: before it (at most as long as a minute), while it was on, and after it;
/// nothing if it begins behind the end. A steady state has no before and after: there the same job
/// without any fault stands before it.
struct FaultEffect {
  std::optional<FaultSpan> before, during, after;
  std::vector<DeviceSpan> devices_before, devices_during, devices_after;  // by device, or empty
  /// Device whose clock the others wait for while the fault is on: it runs clearly below its own
  /// before, and so far below the middle one that this explains most of what steps take longer.
  std::optional<int64_t> waited_for;
};

/// By fault of the run's job; from its series and steps.
std::vector<FaultEffect> fault_effects(const run::Run&);
/// Of all faults of a steady state together, against the same job without them; from summaries.
FaultEffect steady_effect(const run::Run& without, const run::Run& with);

/// A stretch of a run over time.
struct FaultPhase {
  std::string name;  // "whole run", "during inlet=+13@600s..1800s"
  FaultSpan span;
};
/// The whole of a simulated run of several steps, then what lies before, during and after each of
/// its faults; empty for a steady state.
std::vector<FaultPhase> fault_phases_of(const run::Run&);
Json phases_json(const std::vector<FaultPhase>&);

/// The faults beside this one that act within the times that its slowdown compares.
std::vector<spec::Fault> others_within(const std::vector<spec::Fault>&, const spec::Fault&,
                                       const FaultEffect&);

/// How much longer steps take while it is on, 0.1 for a tenth; nothing if no step tells.
std::optional<double> slowdown(const FaultEffect&);

/// The most affected devices, by the change of their clock, then temperature; at most `most`.
std::vector<int64_t> most_affected(const FaultEffect&, size_t most);

Json fault_json(const std::string& fault, const FaultEffect&);

/// "gpu=3,power=0.25@120s..300s host=1,...": as they are written.
std::string names_of(const std::vector<spec::Fault>&);

/// What faults did to a job, by fault. `without`: the same job without them, for a steady state;
/// null for a transient.
Json faults_json(const run::Run& run, const run::Run* without);

}  // namespace triplepoint::metrics
