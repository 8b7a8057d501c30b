// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"

namespace triplepoint::power {

/// Constant power for a while.
struct PowerPiece {
  Seconds duration;
  Watts power;
};

/// Power that rises for a while: `before` at first, then the pieces, then `after`.
struct Burst {
  Watts before;
  std::vector<PowerPiece> pieces;
  Watts after;
  double count = 1;  // how often it occurs while the sensor is read
};

/// What a sensor shows of a burst, as a function of the moment u at which its window ends:
///
///   R(u) = 1/w integral from u - w to u of P dt,   w = min(power_window, power_period)
///
/// linear between the moments at which the window's ends pass from one piece to the next.
class BurstReadings {
 public:
  BurstReadings(const spec::SensorCoefficients&, const Burst&);

  /// For how long a reading exceeds `level`: | { u : R(u) > level } |.
  Seconds time_above(Watts level) const;
  Watts highest() const;
  double count() const { return count_; }
  /// Keeps what time_above(y) needs for y >= level.
  void forget_below(Watts level);

 private:
  struct Segment {
    Seconds length;
    Watts from, to;
  };
  std::vector<Segment> segments_;
  double count_;
};

/// The median of the highest reading of the driver's instant field, whose period T has no relation
/// to the begin of the bursts: the rest of each period is not seen.
///
///   prod_i (1 - min(m_i(y), T) / T)^count_i = 1/2,   y >= floor,   m_i = time_above of burst i
///
/// floor: a power that lasts, so that it is certainly seen. The bursts may be those of many
/// devices, whose sensors have no relation either: then it is the highest reading of any of them.
/// Holds for the instant field; NVML's average field is the mean over one second. A board's gain
/// error (5 %) is not in it.
/// Source: "Part-time Power Measurements", SC'24 (arXiv 2312.02741): 25 of 100 ms, A100 and H100.
Watts highest_reading(const spec::SensorCoefficients&, std::span<const BurstReadings>, Watts floor);

}  // namespace triplepoint::power
