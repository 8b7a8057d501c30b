// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/gpu.h"

#include "triplepoint/calibrate/thermal_trace.h"

namespace triplepoint::calibrate {

/// A load that repeats faster than the driver measures power.
///
/// A driver that shows 25 of every 100 ms (A100, H100) reads pulses of 99 ms as a power that swings
/// within ten seconds, pulses of 100 ms as none at all. Temperatures are read seven times as often,
/// and know. Where the readings of power leave more than 0.5 K rms of them, the load may therefore
/// be a train of equal pulses between the lowest and the highest reading, of which period, share,
/// begin and end are those that leave the least squares of all temperatures: four numbers for the
/// whole trace. It replaces the readings where it halves the squares they leave. Traces whose
/// temperatures are read less than twice between two readings of power stay as they are. Source:
/// "Part-time Power Measurements" (arXiv 2312.02741) for the driver's window.
ThermalTrace explain_pulses(const ThermalTrace&, const spec::ThermalLadder&, const spec::Chassis&);

}  // namespace triplepoint::calibrate
