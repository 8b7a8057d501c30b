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

/// What the driver's instant field shows of a piecewise-constant power.
///
///   shown(t_k) = 1/w integral from t_k - w to t_k of P dt
///   t_k = t_0 + k power_period,   w = min(power_window, power_period)
///
/// The rest of each period is not seen: a 100 ms period with a 25 ms window shows a quarter of the
/// time. Values stand at period ends, from one period after the first piece until `end`; the last
/// piece lasts until `end`.
/// Holds for the instant field; NVML's average field is the same with one second for both numbers.
/// A board's gain error (5 %) is not in it.
/// Source: "Part-time Power Measurements", SC'24 (arXiv 2312.02741): 25 of 100 ms, A100 and H100.
std::vector<PowerPiece> sensor_view(const spec::SensorCoefficients&, std::span<const PowerPiece>,
                                    Seconds end);

}  // namespace triplepoint::power
