// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// How long a device was held back by one cause, as two kinds of reading tell it.
struct ThrottleResidency {
  std::optional<Seconds> counted;  // by the driver's counter of nanoseconds: misses nothing
  std::optional<Seconds> polled;   // by the bits as they were when somebody looked
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
std::map<std::string, double> throttle_shares(const std::map<std::string, ThrottleResidency>&,
                                              Seconds duration);

}  // namespace triplepoint::telemetry
