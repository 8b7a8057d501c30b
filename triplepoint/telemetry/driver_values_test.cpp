// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/driver_values.h"

#include <doctest/doctest.h>

#include "triplepoint/telemetry/open_file.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {
namespace {

constexpr int64_t second = 1'000'000'000;

TEST_CASE("a counter counts from its first value, in the unit of its signal") {
  Counter counter({.unit = 1e-3});
  CHECK(counter.update(5'000, 0) == 0);
  CHECK(counter.update(7'500, second) == doctest::Approx(2.5));
}

TEST_CASE("what is counted does not depend on how many wraps lie between") {
  for (const int bits : {16, 32}) {
    const uint64_t modulus = 1ULL << static_cast<unsigned>(bits);
    Counter narrow({.modulus = modulus}), wide;
    uint64_t truth = modulus - 100;
    for (int i = 0; i < 50; ++i) {
      CHECK(narrow.update(truth % modulus, i * second) == wide.update(truth, i * second));
      truth += modulus / 3;
    }
  }
}

TEST_CASE("a wrap that the hardware cannot have made is a restart, and counts nothing") {
  Counter energy({.modulus = 1'000'000, .most_per_s = 100});
  energy.update(500'000, 0);
  CHECK(energy.update(500'050, second) == 50);
  CHECK(energy.update(10, 2 * second) == 50);
  CHECK(energy.take_restart());
  CHECK_FALSE(energy.take_restart());
  CHECK(energy.update(30, 3 * second) == 70);
}

TEST_CASE("a wide counter that steps back began anew") {
  Counter counter;
  counter.update(1'000'000, 0);
  counter.update(1'000'400, second);
  CHECK(counter.update(7, 2 * second) == 400);
  CHECK(counter.take_restart());
  CHECK(counter.update(107, 3 * second) == 500);
}

TEST_CASE("a counter that says 64 bits and keeps 32 is found out by where it wraps") {
  Counter counter({.perhaps_32 = true});
  counter.update((1ULL << 32U) - 10, 0);
  CHECK(counter.update(15, second) == 25);
  CHECK_FALSE(counter.take_restart());
}

TEST_CASE("counting goes on after a rebase, without what lies between") {
  Counter counter;
  counter.update(100, 0);
  counter.update(150, second);
  counter.rebase();
  CHECK(counter.update(9'000, 2 * second) == 50);
  CHECK(counter.update(9'001, 3 * second) == 51);
}

TEST_CASE("the ways in which drivers say nothing are no values") {
  CHECK(is_sentinel(0xffff, 16));
  CHECK(is_sentinel(0xffffffff, 32));
  CHECK_FALSE(is_sentinel(0xffffffff, 64));
  CHECK(is_sentinel(~0ULL, 64));
  CHECK(is_sentinel(0x7ffffffffffffff2ULL, 64));  // DCGM's "not supported"
  CHECK_FALSE(is_sentinel(0x7fffffffffff0000ULL, 64));
  CHECK_FALSE(plausible_range("power_instant_w").holds(std::nan("")));
  CHECK_FALSE(plausible_range("memory_c").holds(255));
  CHECK_FALSE(plausible_range("memory_c").holds(0));
  CHECK(plausible_range("inlet_c").holds(-20));
  CHECK_FALSE(plausible_range("sm_clock_mhz").holds(4294967295.0));
}

TEST_CASE("a stamp of the driver keeps its place until the clock is set") {
  UnixTime clock;
  const int64_t wall = 1'700'000'000 * second;
  clock.look(5 * second, wall + 5 * second);
  const auto stamp = clock.monotonic((wall + 4 * second) / 1000);
  REQUIRE(stamp);
  CHECK(*stamp == 4 * second);
  clock.look(6 * second, wall + 6 * second + 400'000);  // slewed by less than a millisecond
  CHECK(clock.monotonic((wall + 4 * second) / 1000) == stamp);
  clock.look(7 * second, wall + 3607 * second);  // set by an hour
  CHECK(clock.monotonic((wall + 3606 * second) / 1000) == 6 * second);
}

TEST_CASE("a stamp that cannot be is none") {
  UnixTime clock;
  const int64_t wall = 1'700'000'000 * second;
  clock.look(100 * second, wall + 100 * second);
  CHECK_FALSE(clock.monotonic(0));
  CHECK_FALSE(clock.monotonic(-1));
  CHECK_FALSE(clock.monotonic(INT64_MAX));
  CHECK_FALSE(clock.monotonic((wall + 103 * second) / 1000));
  CHECK_FALSE(clock.monotonic((wall + 80 * second) / 1000));
}

TEST_CASE("GPUs that lack the same are said once") {
  GapList gaps;
  for (const int gpu : {0, 1, 2, 5})
    gaps.add({"memory power", "Not Supported (3)", ""}, gpu);
  gaps.add({"memory power", "Insufficient Permissions (4)", ""}, 3);
  REQUIRE(gaps.gaps().size() == 2);
  CHECK(gaps.gaps()[0].what == "memory power of GPUs 0-2, 5");
  CHECK(gaps.gaps()[1].what == "memory power of GPU 3");
}

TEST_CASE("small files of the kernel begin with their number") {
  CHECK(leading_number("42\n") == 42);
  CHECK(leading_number("  325.5 W 1700000000 us") == 325.5);
  CHECK(leading_count("18446744073709551615") == ~0ULL);
  CHECK_FALSE(leading_count("18446744073709551616"));
  CHECK_FALSE(leading_count("-1"));
  CHECK_FALSE(leading_number("N/A"));
  CHECK_FALSE(leading_number("nan"));
  CHECK_FALSE(leading_number(""));
}

}  // namespace
}  // namespace triplepoint::telemetry
