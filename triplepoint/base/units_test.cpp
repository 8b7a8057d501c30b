// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/units.h"

#include <type_traits>

#include <doctest/doctest.h>

#include "triplepoint/base/instant.h"

namespace triplepoint {
namespace {

TEST_CASE("watts times seconds are joules") {
  const Joules energy = 700 * unit::W * (2 * unit::s);
  CHECK(energy / unit::kJ == doctest::Approx(1.4));
}

TEST_CASE("like over like is a plain number") {
  static_assert(std::is_same_v<decltype(unit::W / unit::kW), double>);
  CHECK(unit::kW / unit::W == 1000);
}

TEST_CASE("two readings of temperature differ by kelvins") {
  CHECK((Celsius(35) - Celsius(25)) / unit::K == 10);
  CHECK(Celsius(25) + 10 * unit::K == Celsius(35));
}

TEST_CASE("heat carried by an air stream over its heat capacity is its rise in kelvins") {
  const auto rho_cp = 1200 * unit::J / unit::m3 / unit::K;
  const CubicMetersPerSecond flow = 0.5 * unit::m3 / unit::s;
  const Kelvins rise = 6 * unit::kW / (rho_cp * flow);
  CHECK(rise / unit::K == doctest::Approx(10));
}

TEST_CASE("a gigabyte is 10^9 bytes, a gibibyte is 2^30, eight gigabits are one gigabyte") {
  CHECK(unit::GB / unit::B == 1e9);
  CHECK(unit::GiB / unit::MiB == 1024);
  CHECK(8 * unit::Gb == unit::GB);
}

TEST_CASE("one over a time is a frequency") {
  const Hertz rate = 1.0 / (2 * unit::ms);
  CHECK(rate / unit::Hz == doctest::Approx(500));
}

TEST_CASE("an instant plus the difference to another is that other") {
  const Instant a(1'000'000'007);
  const Instant b(5'000'000'009);
  CHECK(a + (b - a) == b);
  CHECK(instant_at(2 * unit::us) == Instant(2000));
}

}  // namespace
}  // namespace triplepoint
