// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/thermal_groups.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::advise {
namespace {

constexpr int64_t per_node = 8;

/// Devices of some nodes; `hot` ones `above` kelvin over 52 C, with sensor noise.
std::vector<ThermalSample> machine(int64_t nodes, const std::set<int64_t>& hot, double kelvin,
                                   uint64_t seed) {
  std::vector<ThermalSample> samples;
  for (int64_t i = 0; i < nodes * per_node; ++i) {
    const double noise = random_normal({seed, 1}, static_cast<uint64_t>(i));
    const bool is_hot = hot.count(i % per_node) > 0;
    samples.push_back({.node = i / per_node,
                       .local = i % per_node,
                       .temperature_c = 52 + noise + (is_hot ? kelvin : 0),
                       .power_w = {},
                       .clock_mhz = {},
                       .throttled = {}});
  }
  return samples;
}

std::set<int64_t> slots_of(const ThermalGroup& group, const std::vector<ThermalSample>& devices) {
  std::set<int64_t> slots;
  for (const size_t i : group.members)
    slots.insert(devices[i].local);
  return slots;
}

TEST_CASE("the grouping that leaves the least scatter is found among all of them") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<double> values;
    for (uint64_t i = 0; i < 9; ++i)
      values.push_back(random_normal({seed, 2}, i));
    std::ranges::sort(values);
    const auto scatter = [&](size_t begin, size_t end) {
      double mean = 0, sum = 0;
      for (size_t i = begin; i < end; ++i)
        mean += values[i] / as_real(end - begin);
      for (size_t i = begin; i < end; ++i)
        sum += (values[i] - mean) * (values[i] - mean);
      return sum;
    };
    double two = 1e9, three = 1e9;
    for (size_t a = 1; a < 9; ++a) {
      two = std::min(two, scatter(0, a) + scatter(a, 9));
      for (size_t b = a + 1; b < 9; ++b)
        three = std::min(three, scatter(0, a) + scatter(a, b) + scatter(b, 9));
    }
    const BestGroupings groupings(values, 3);
    CHECK(groupings.left(2) == doctest::Approx(two));
    CHECK(groupings.left(3) == doctest::Approx(three));
    const auto ends = groupings.ends(3);
    CHECK(scatter(0, ends[0]) + scatter(ends[0], ends[1]) + scatter(ends[1], 9) ==
          doctest::Approx(three));
  }
}

TEST_CASE("hot slots are found whichever they are and however many nodes there are") {
  uint64_t seed = 1;
  for (const std::set<int64_t>& hot :
       {std::set<int64_t>{0, 3, 4, 6}, {4, 5, 6, 7}, {0, 1}, {2, 3, 4, 5, 6, 7}})
    for (int64_t nodes : {1, 2, 4, 16}) {
      const auto devices = machine(nodes, hot, 12, seed++);
      const ThermalGroups found = find_thermal_groups(devices);
      CAPTURE(nodes);
      CAPTURE(hot.size());
      REQUIRE(found.groups.size() == 2);
      CHECK(slots_of(found.groups[1], devices) == hot);
      CHECK(found.groups[0].members.size() + found.groups[1].members.size() == devices.size());
    }
}

TEST_CASE("where nothing separates devices there is one group") {
  int alone = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    alone += find_thermal_groups(machine(4, {}, 0, seed)).groups.size() == 1 ? 1 : 0;
  CHECK(alone == 20);
  // A gap that a sensor's own steps can make is none, however clean.
  std::vector<ThermalSample> steps = machine(4, {}, 0, 1);
  for (ThermalSample& sample : steps)
    sample.temperature_c = sample.local < 4 ? 60 : 62;
  CHECK(find_thermal_groups(steps).groups.size() == 1);
}

TEST_CASE("three groups come out where there are three") {
  std::vector<ThermalSample> devices = machine(4, {4, 5, 6, 7}, 15, 3);
  for (ThermalSample& sample : devices)
    if (sample.local == 6 || sample.local == 7) *sample.temperature_c += 15;
  CHECK(find_thermal_groups(devices).groups.size() == 3);
}

TEST_CASE("one GPU with a bad sink is its own group") {
  std::vector<ThermalSample> devices = machine(4, {}, 0, 5);
  *devices[17].temperature_c += 25;
  const ThermalGroups found = find_thermal_groups(devices);
  REQUIRE(found.groups.size() == 2);
  CHECK(found.groups[1].members == std::vector<size_t>{17});
}

TEST_CASE("a warmer room behind one node neither makes nor hides groups") {
  std::vector<ThermalSample> even = machine(4, {}, 0, 7), slots = machine(4, {0, 3, 4, 6}, 12, 7);
  for (auto* devices : {&even, &slots})
    for (ThermalSample& sample : *devices)
      if (sample.node == 2) *sample.temperature_c += 9;
  CHECK(find_thermal_groups(even).groups.size() == 1);
  const ThermalGroups found = find_thermal_groups(slots);
  REQUIRE(found.groups.size() == 2);
  CHECK(slots_of(found.groups[1], slots) == std::set<int64_t>{0, 3, 4, 6});
  CHECK(found.node_effects[2] - found.node_effects[0] == doctest::Approx(9).epsilon(0.15));
}

TEST_CASE("nodes may have their cold slots in different places") {
  std::vector<ThermalSample> devices = machine(2, {0, 3, 4, 6}, 12, 9);
  const auto other = machine(2, {0, 1, 2, 3}, 12, 9);
  std::copy(other.begin() + per_node, other.end(), devices.begin() + per_node);
  const ThermalGroups found = find_thermal_groups(devices);
  REQUIRE(found.groups.size() == 2);
  CHECK(cold_first_order(found, devices) ==
        std::vector<std::vector<int64_t>>{{1, 2, 5, 7, 0, 3, 4, 6}, {4, 5, 6, 7, 0, 1, 2, 3}});
}

TEST_CASE("devices that are warm because they work more are no group") {
  // 0.04 K/W; half of the devices draw 300 W more.
  std::vector<ThermalSample> once = machine(4, {}, 0, 11);
  for (ThermalSample& sample : once) {
    sample.power_w = sample.local < 4 ? 600 : 300;
    *sample.temperature_c += 0.04 * *sample.power_w;
  }
  CHECK(find_thermal_groups(once).groups.size() == 2);  // one load each: not identifiable
  CHECK(find_thermal_groups(once, {.sign = {}, .kelvin_per_watt = 0.04}).groups.size() == 1);
  std::vector<ThermalSample> twice = once;
  for (ThermalSample sample : once) {
    *sample.power_w -= 200;
    *sample.temperature_c -= 0.04 * 200;
    twice.push_back(sample);
  }
  const ThermalGroups found = find_thermal_groups(twice);
  CHECK(found.load_slope == doctest::Approx(0.04));
  CHECK(found.groups.size() == 1);
}

TEST_CASE("without temperatures, clocks or throttling tell, and the slow ones are the hot ones") {
  std::vector<ThermalSample> devices = machine(4, {0, 3, 4, 6}, 12, 13);
  for (ThermalSample& sample : devices) {
    sample.clock_mhz = 1900 - 10 * (*sample.temperature_c - 52);
    sample.temperature_c.reset();
  }
  const ThermalGroups found = find_thermal_groups(devices);
  CHECK(found.sign == ThermalSign::clock);
  REQUIRE(found.groups.size() == 2);
  CHECK(slots_of(found.groups[1], devices) == std::set<int64_t>{0, 3, 4, 6});
}

TEST_CASE("a device without a reading is in no group, last in every order, and moves no other") {
  std::vector<ThermalSample> samples;
  for (int64_t i = 0; i < 8; ++i)
    samples.push_back({.node = 0,
                       .local = i,
                       .temperature_c = i % 2 == 0 ? 60.0 + 0.1 * as_real(i) : 75.0,
                       .power_w = 690});
  const ThermalGroups all = find_thermal_groups(samples);
  REQUIRE(all.groups.size() == 2);
  for (size_t lost = 0; lost < 8; ++lost) {
    CAPTURE(lost);
    std::vector<ThermalSample> fewer = samples;
    fewer[lost].temperature_c.reset();
    const ThermalGroups found = find_thermal_groups(fewer);
    CHECK(found.unread == std::vector<size_t>{lost});
    REQUIRE(found.groups.size() == 2);
    for (size_t i = 0; i < 8; ++i)
      CHECK(found.group_of[i] == (i == lost ? 1 : all.group_of[i]));
    CHECK(cold_first_order(found, mean_samples(fewer)).front().back() ==
          static_cast<int64_t>(lost));
    fewer = samples;
    fewer[lost].power_w.reset();
    CHECK(find_thermal_groups(fewer).group_of == all.group_of);
  }
}

}  // namespace
}  // namespace triplepoint::advise
