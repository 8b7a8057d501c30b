// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"

#include "triplepoint/power/power_trace.h"

namespace triplepoint::power {

/// w = min(power_window, power_period): a driver that averages part of each period does not see the
/// rest.
Seconds window_of(const spec::SensorCoefficients&);

/// What a sensor shows of power that is `before` at first, then the pieces, then `after`, as a
/// function of the moment u at which its window ends:
///
///   R(u) = 1/w integral from u - w to u of P dt
///
/// while it differs from both; each reading stands for a sixteenth of a window.
std::vector<PowerPiece> readings_of(const spec::SensorCoefficients&, Watts before,
                                    std::vector<PowerPiece> pieces, Watts after);

/// The median of the highest reading of the driver's instant field. It looks once in a period T, at
/// moments that have no relation to what the device does, so its looks at readings above y are
/// Poisson's, and none in half of all cases where
///
///   | { u : R(u) > y } | = T ln 2,   y >= floor
///
/// readings: all that occur while the sensor is read, each for as long as it occurs. floor: a power
/// that lasts, so that it is certainly seen. The readings may be those of many devices, whose
/// sensors have no relation either: then it is the highest of any of them.
/// Holds for the instant field; NVML's average field is the mean over one second. A board's gain
/// error (5 %) is not in it.
/// Source: "Part-time Power Measurements", SC'24 (arXiv 2312.02741): 25 of 100 ms, A100 and H100.
Watts highest_reading(const spec::SensorCoefficients&, std::vector<PowerPiece> readings,
                      Watts floor);

}  // namespace triplepoint::power
