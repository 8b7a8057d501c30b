// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/power/sensor.h"

#include <doctest/doctest.h>

namespace triplepoint::power {
namespace {

using doctest::Approx;

constexpr spec::SensorCoefficients part_time{.power_window = 25 * unit::ms,
                                             .power_period = 100 * unit::ms};

/// `high` during the first `share` of every period, `low` after.
std::vector<PowerPiece> square_wave(double period_ms, double share, int periods, Watts high,
                                    Watts low) {
  std::vector<PowerPiece> pieces;
  for (int k = 0; k < periods; ++k) {
    pieces.push_back({k * period_ms * unit::ms, high});
    pieces.push_back({(k + share) * period_ms * unit::ms, low});
  }
  return pieces;
}

TEST_CASE("constant power is shown as it is, once per period") {
  const std::vector<PowerPiece> constant{{Seconds(), 432 * unit::W}};
  const auto seen = sensor_view(part_time, constant, 1 * unit::s);
  REQUIRE(seen.size() == 10);
  for (size_t k = 0; k < seen.size(); ++k) {
    CHECK(seen[k].power / unit::W == Approx(432));
    CHECK(seen[k].start / unit::ms == Approx(100.0 * static_cast<double>(k + 1)));
  }
}

TEST_CASE("a part-time sensor sees only the end of its period") {
  const auto blind = sensor_view(part_time, square_wave(100, 0.75, 5, 700 * unit::W, 100 * unit::W),
                                 500 * unit::ms);
  for (const PowerPiece& value : blind)
    CHECK(value.power / unit::W == Approx(100));
  const auto half = sensor_view(part_time, square_wave(100, 0.875, 5, 700 * unit::W, 100 * unit::W),
                                500 * unit::ms);
  for (const PowerPiece& value : half)
    CHECK(value.power / unit::W == Approx(400));
}

TEST_CASE("a sensor that looks all the time keeps the energy") {
  const spec::SensorCoefficients whole{.power_window = 100 * unit::ms,
                                       .power_period = 100 * unit::ms};
  const auto seen =
      sensor_view(whole, square_wave(70, 0.3, 10, 700 * unit::W, 100 * unit::W), 700 * unit::ms);
  Joules energy;
  for (const PowerPiece& value : seen)
    energy += value.power * whole.power_period;
  CHECK(energy / unit::J == Approx(0.7 * (0.3 * 700 + 0.7 * 100)));
}

TEST_CASE("a window longer than the period looks at the period") {
  const spec::SensorCoefficients eager{.power_window = 1 * unit::s, .power_period = 100 * unit::ms};
  const std::vector<PowerPiece> step{{Seconds(), 100 * unit::W}, {100 * unit::ms, 500 * unit::W}};
  const auto seen = sensor_view(eager, step, 200 * unit::ms);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].power / unit::W == Approx(100));
  CHECK(seen[1].power / unit::W == Approx(500));
}

TEST_CASE("shown values lie between the lowest and the highest power") {
  const auto seen =
      sensor_view(part_time, square_wave(37, 0.4, 50, 985 * unit::W, 140 * unit::W), 1.8 * unit::s);
  REQUIRE(seen.size() == 18);
  for (const PowerPiece& value : seen) {
    CHECK(value.power >= 139.999 * unit::W);
    CHECK(value.power <= 985.001 * unit::W);
  }
}

TEST_CASE("nothing is shown before the first period is over") {
  const std::vector<PowerPiece> constant{{Seconds(), 432 * unit::W}};
  CHECK(sensor_view(part_time, constant, 99 * unit::ms).empty());
}

}  // namespace
}  // namespace triplepoint::power
