// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/sensor.h"

// What a power sensor shows: the mean over the window at the end of each period. A short burst
// shows in full only if the window happens to lie on it; the more bursts, the higher the highest
// reading.

#include <algorithm>
#include <cmath>
#include <functional>

#include "triplepoint/base/result.h"

namespace triplepoint::power {

Seconds window_of(const spec::SensorCoefficients& sensor) {
  TPT_EXPECT(sensor.power_period > Seconds() && sensor.power_window > Seconds());
  return std::min(sensor.power_window, sensor.power_period);
}

std::vector<PowerPiece> readings_of(const spec::SensorCoefficients& sensor, Watts before,
                                    std::vector<PowerPiece> pieces, Watts after) {
  const Seconds window = window_of(sensor), part = window / 16;
  pieces.insert(pieces.begin(), {window, before});
  pieces.push_back({window, after});
  const Seconds last = length_of(pieces) - window;
  std::vector<Seconds> begins;
  for (Seconds begin = 0.5 * part; begin < last; begin += part)
    begins.push_back(begin);
  std::vector<PowerPiece> readings;
  for (const Watts reading : window_means(pieces, begins, window))
    readings.push_back({part, reading});
  return readings;
}

Watts highest_reading(const spec::SensorCoefficients& sensor, std::vector<PowerPiece> readings,
                      Watts floor) {
  std::erase_if(readings, [&](const PowerPiece& reading) { return reading.power <= floor; });
  std::ranges::sort(readings, std::greater(), &PowerPiece::power);
  const Seconds enough = std::log(2.0) * sensor.power_period;
  Seconds above;
  for (const PowerPiece& reading : readings)
    if ((above += reading.duration) >= enough) return reading.power;
  return floor;
}

}  // namespace triplepoint::power
