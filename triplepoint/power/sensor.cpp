// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/sensor.h"

// What a power sensor shows: the mean over the window at the end of each period. A driver that
// averages part of each period does not see the rest, so a short burst shows in full only if the
// window happens to lie on it; the more bursts, the higher the highest reading.

#include <algorithm>
#include <cmath>

#include "triplepoint/base/result.h"

namespace triplepoint::power {
namespace {

Seconds window_of(const spec::SensorCoefficients& sensor) {
  TPT_EXPECT(sensor.power_period > Seconds() && sensor.power_window > Seconds());
  return std::min(sensor.power_window, sensor.power_period);
}

/// The energy of a burst from its begin until moments that do not fall; negative before it.
class EnergyUntil {
 public:
  explicit EnergyUntil(const Burst& burst) : burst_(burst) {}

  Joules operator()(Seconds time) {
    if (time <= Seconds()) return burst_.before * time;
    while (at_ < burst_.pieces.size() && begin_ + burst_.pieces[at_].duration <= time) {
      energy_ += burst_.pieces[at_].power * burst_.pieces[at_].duration;
      begin_ += burst_.pieces[at_].duration;
      ++at_;
    }
    const Watts power = at_ < burst_.pieces.size() ? burst_.pieces[at_].power : burst_.after;
    return energy_ + power * (time - begin_);
  }

 private:
  const Burst& burst_;
  size_t at_ = 0;
  Seconds begin_;
  Joules energy_;
};

}  // namespace

BurstReadings::BurstReadings(const spec::SensorCoefficients& sensor, const Burst& burst)
    : count_(burst.count) {
  const Seconds window = window_of(sensor);
  std::vector<Seconds> moments = {Seconds(), window};
  Seconds end;
  for (const PowerPiece& piece : burst.pieces) {
    end += piece.duration;
    moments.push_back(end);
    moments.push_back(end + window);
  }
  std::ranges::sort(moments);
  EnergyUntil head(burst), tail(burst);
  Watts before;
  for (size_t i = 0; i < moments.size(); ++i) {
    const Watts now = (head(moments[i]) - tail(moments[i] - window)) / window;
    if (i > 0) segments_.push_back({moments[i] - moments[i - 1], before, now});
    before = now;
  }
}

Seconds BurstReadings::time_above(Watts level) const {
  Seconds above;
  for (const Segment& segment : segments_) {
    const Watts low = std::min(segment.from, segment.to), high = std::max(segment.from, segment.to);
    if (low > level)
      above += segment.length;
    else if (high > level)
      above += (high - level) / (high - low) * segment.length;
  }
  return above;
}

Watts BurstReadings::highest() const {
  Watts highest;
  for (const Segment& segment : segments_)
    highest = std::max({highest, segment.from, segment.to});
  return highest;
}

void BurstReadings::forget_below(Watts level) {
  std::erase_if(segments_, [level](const Segment& segment) {
    return std::max(segment.from, segment.to) <= level;
  });
}

Watts highest_reading(const spec::SensorCoefficients& sensor,
                      std::span<const BurstReadings> readings, Watts floor) {
  Watts low = floor, high = floor;
  for (const BurstReadings& burst : readings)
    high = std::max(high, burst.highest());
  const auto seen_more_often_than_not = [&](Watts level) {
    double log_of_unseen = 0;
    for (const BurstReadings& burst : readings) {
      const double share = burst.time_above(level) / sensor.power_period;
      if (share >= 1) return true;
      log_of_unseen += burst.count() * std::log1p(-share);
    }
    return log_of_unseen < -std::log(2.0);
  };
  constexpr Watts precise = 1e-3 * unit::W;
  while (high - low > precise) {
    const Watts middle = 0.5 * (low + high);
    (seen_more_often_than_not(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace triplepoint::power
