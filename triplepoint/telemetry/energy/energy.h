// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// How long a device was held back by one cause, as two kinds of reading tell it.
struct ThrottleResidency {
  std::optional<Seconds> counted;  // by the driver's counter of nanoseconds: misses nothing
  std::optional<Seconds> polled;   // by the bits at the time of the sample
  /// The counter grew, and no poll ever saw it.
  bool was_missed_by_polling() const;
};

/// By the name of the reason (software_power_cap, hardware_thermal, ...), those that can be told.
///
/// A polled bit holds until the next poll; an episode shorter than the polls' distance is seen with
/// a chance of its length over that distance, and then taken for as long as the distance.
std::map<std::string, ThrottleResidency> throttle_residency(const run::Run& run, int32_t device,
                                                            Instant begin, Instant end);

/// Shares of time for a summary: by counter where there is one, else by polling.
run::NamedValues throttle_shares(const std::map<std::string, ThrottleResidency>&, Seconds duration);

/// Energy of one device over a stretch of time, and how far it may be off.
struct EnergyEstimate {
  Joules energy;
  Joules edges;  // what the two ends of the stretch leave open
  Joules gain;   // what the sensor's scale leaves open
  Joules uncertainty() const { return edges + gain; }
};

/// All that the sensors say about it. They are never mixed: each estimate rests on one series.
struct MeasuredEnergy {
  std::optional<EnergyEstimate> counter;     // from the energy counter
  std::optional<EnergyEstimate> integrated;  // from the power readings, instant before average
  std::string_view method;                   // of best(): "counter" or "integrated"; "" if none
  const EnergyEstimate* best() const;
  /// |counter - integrated| / counter; more than their uncertainties means that one of them lies.
  std::optional<double> disagreement() const;
};

/// Energy of a device in [begin, end] from its series energy_j, power_instant_w, power_average_w.
///
///   counter     E = C(end) - C(begin), C between two stamps by interpolation
///   integrated  E = integral of P, P a straight line between two readings. A reading that is the
///               mean of the window W before its stamp belongs to the middle of W
///   edges       one update period of power per end: P(begin) T + P(end) T
///   gain        5 % of E: the typical error of a GPU's power sensor, which no counting removes
///
/// A series may lack up to a twentieth of the stretch at an end, and a second at the beginning (but
/// no more than a fifth), in which drivers are opened; that part of the energy is added to what the
/// edges leave open.
///
/// Gaps of more than ten updates (a driver reset, a stopped recorder) are uncertain as a whole,
/// unless the counter went on; where it was reset, they count at the mean power of the rest.
///
/// The counter is the better one if [begin, end] covers at least ten of its updates; a shorter
/// stretch is integrated. T: period of the series' source, else the median distance of its stamps.
/// A sensor that sees 25 ms of every 100 ms is right over many updates as long as the load does not
/// repeat in step with them. Sources: "Part-time power measurements", SC 2024 (arXiv 2312.02741).
MeasuredEnergy energy_of(const run::Run& run, int32_t device, Instant begin, Instant end);

inline constexpr double gain_error = 0.05;
inline constexpr double least_updates = 10;

/// Energy of a node's own counter or power meter (cpu_energy_j, dram_energy_j, node_energy_j,
/// node_power_w). Scopes overlap: a node contains its CPUs and GPUs, so they are never added here.
std::optional<Joules> node_energy_of(const run::Run& run, std::string_view signal, int32_t node,
                                     Instant begin, Instant end);

}  // namespace triplepoint::telemetry
