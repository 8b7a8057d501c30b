// SPDX-License-Identifier: Apache-2.0
// What a power sensor shows: the mean over the window at the end of each period. A driver that
// averages part of each period does not see the rest, so pulses alias; a comparison with readings
// has to pass predictions through the same window. Cost: one walk over all pieces, since windows
// come in order.
#include "triplepoint/power/sensor.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

namespace triplepoint::power {
namespace {

/// Walks forward through pieces and integrates them; windows come in order and do not overlap.
class Meter {
 public:
  explicit Meter(std::span<const PowerPiece> pieces) : pieces_(pieces) {}

  Watts mean(Seconds from, Seconds until) {
    while (at_ + 1 < pieces_.size() && pieces_[at_ + 1].start <= from)
      ++at_;
    Joules energy;
    for (Seconds now = from; now < until;) {
      const Seconds next = std::min(until, end_of_piece());
      energy += pieces_[at_].power * (next - now);
      if (next < until) ++at_;
      now = next;
    }
    return energy / (until - from);
  }

 private:
  Seconds end_of_piece() const {
    constexpr double never = 1e300;
    return at_ + 1 < pieces_.size() ? pieces_[at_ + 1].start : never * unit::s;
  }

  std::span<const PowerPiece> pieces_;
  size_t at_ = 0;
};

}  // namespace

std::vector<PowerPiece> sensor_view(const spec::SensorCoefficients& sensor,
                                    std::span<const PowerPiece> pieces, Seconds end) {
  TPT_EXPECT(sensor.power_period > Seconds() && sensor.power_window > Seconds());
  TPT_EXPECT(!pieces.empty());
  // A longer window would overlap the one before it, and the walk goes forward only.
  const Seconds window = std::min(sensor.power_window, sensor.power_period);
  const Seconds begin = pieces.front().start;
  Meter meter(pieces);
  std::vector<PowerPiece> seen;
  // Counted, not added up, so that a long run's values do not drift off the period.
  for (int64_t k = 1;; ++k) {
    const Seconds now = begin + static_cast<double>(k) * sensor.power_period;
    if (now > end) return seen;
    seen.push_back({.start = now, .power = meter.mean(now - window, now)});
  }
}

}  // namespace triplepoint::power
