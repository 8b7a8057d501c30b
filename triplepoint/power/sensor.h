// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/base/units.h"
#include "triplepoint/spec/gpu.h"

namespace triplepoint::power {

/// Power that is constant from `start` until the next piece's start.
struct PowerPiece {
  Seconds start;
  Watts power;
};

/// What the driver's field shows of a piecewise-constant power: every `power_period` the mean over the last
/// `power_window` (the rest of the period is not seen). Values at period ends until `end`.
/// Source: "Part-time Power Measurements", SC'24 (arXiv 2312.02741): H100 25 ms of every 100 ms.
std::vector<PowerPiece> sensor_view(const spec::SensorCoefficients&, std::span<const PowerPiece>, Seconds end);

}  // namespace triplepoint::power
