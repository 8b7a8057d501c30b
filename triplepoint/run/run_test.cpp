// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/run.h"

#include <doctest/doctest.h>

#include "triplepoint/run/device_number.h"

namespace triplepoint::run {
namespace {

Series series(std::vector<int64_t> seconds, std::vector<double> values) {
  Series made{.signal = "power_instant_w", .values = std::move(values)};
  for (int64_t s : seconds)
    made.times.emplace_back(s * 1'000'000'000);
  return made;
}
Instant at(double seconds) {
  return instant_at(seconds * unit::s);
}

TEST_CASE("a value holds until the next one") {
  const SeriesStatistics all = statistics(series({0, 1, 4}, {100, 400, 900}));
  CHECK(all.time_weighted_mean == doctest::Approx((100 * 1 + 400 * 3) / 4.0));
  CHECK(all.minimum == 100);
  CHECK(all.maximum == 900);
  CHECK(all.count == 3);
}

TEST_CASE("the mean of a constant is the constant, however it is sampled") {
  CHECK(statistics(series({0, 1, 7, 8}, {5, 5, 5, 5})).time_weighted_mean == doctest::Approx(5));
  CHECK(statistics(series({3}, {5})).time_weighted_mean == 5);
  CHECK(statistics(series({}, {})).count == 0);
}

TEST_CASE("the means of two halves average to the mean of the whole") {
  const Series saw = series({0, 1, 2, 3, 4}, {1, 9, 4, 7, 2});
  const double whole = statistics(saw, at(0), at(4)).time_weighted_mean;
  const double first = statistics(saw, at(0), at(1.5)).time_weighted_mean;
  const double rest = statistics(saw, at(1.5), at(4)).time_weighted_mean;
  CHECK((1.5 * first + 2.5 * rest) / 4 == doctest::Approx(whole));
}

TEST_CASE("what was before the first stamp is not counted") {
  CHECK(statistics(series({2, 3}, {10, 20}), at(0), at(4)).time_weighted_mean ==
        doctest::Approx(15));
}

TEST_CASE("a counter is read between its stamps and never beyond them") {
  const Series energy = series({0, 10, 20}, {0, 1000, 3000});
  CHECK(counter_difference(energy, at(5), at(15)).value() == doctest::Approx(1500));
  CHECK(counter_difference(energy, at(0), at(20)).value() == doctest::Approx(3000));
  CHECK(!counter_difference(energy, at(5), at(21)));
}

TEST_CASE("an index of the series finds what find_series finds") {
  Run run;
  for (const int32_t device : {0, 1, 3})
    for (const char* signal : {"power_w", "die_c"})
      run.series.push_back({.signal = signal, .device = device});
  run.series.push_back({.signal = "inlet_c", .device = 0, .of_node = true});
  run.series.push_back({.signal = "power_w", .device = 1});  // a second one: the first counts
  const SeriesIndex index(run);
  for (const bool of_node : {false, true})
    for (int32_t device = -1; device < 5; ++device)
      for (const char* signal : {"power_w", "die_c", "inlet_c", "sm_clock_mhz"})
        CHECK(index.find(signal, device, of_node) == find_series(run, signal, device, of_node));
  CHECK(index.find("power_w", 1) == &run.series[2]);
}

TEST_CASE("the share of time of a bit counts its seconds, not its samples") {
  const Series reasons = series({0, 1, 2, 10}, {0, 4, 4 + 32, 0});
  CHECK(share_of_time(reasons, 4, at(0), at(10)).value() == doctest::Approx(0.9));
  CHECK(share_of_time(reasons, 32, at(0), at(10)).value() == doctest::Approx(0.8));
  CHECK(share_of_time(reasons, 128, at(0), at(10)).value() == 0);
  CHECK(!share_of_time(series({}, {}), 4, at(0), at(10)));
}

TEST_CASE("views call a recording's GPU as its node does, and a simulated one by its place") {
  Run run;
  run.devices = {{.index = 0, .local = 4}, {.index = 1, .local = 6}};
  CHECK(device_number(run, 1) == "1");
  CHECK(device_numbers(run).empty());
  run.manifest.origin = Origin::imported;
  CHECK(device_number(run, 1) == "6");
  run.devices.push_back({.index = 2, .node = 1, .local = 0});
  CHECK(device_numbers(run) ==
        std::vector<std::string>{"4 of node 0", "6 of node 0", "0 of node 1"});
  CHECK(device_number(device_numbers(run), 3) == "3");
}

TEST_CASE("series read at the same moments share their stamps until one goes on") {
  Times one = {Instant(1), Instant(2)};
  Times other = one;
  CHECK(&other[0] == &one[0]);
  other.push_back(Instant(3));
  CHECK(one.size() == 2);
  CHECK(other == Times{Instant(1), Instant(2), Instant(3)});
  CHECK(one == Times{Instant(1), Instant(2)});
  CHECK_FALSE(one == other);
  CHECK(Times().empty());
  CHECK(Times() == Times(std::vector<Instant>()));
}

}  // namespace
}  // namespace triplepoint::run
