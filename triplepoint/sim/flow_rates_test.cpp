// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/flow_rates.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/sim/event_queue.h"
#include "triplepoint/sim/schedule_testing.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

struct Network {
  std::vector<FlowClass> classes;
  std::vector<BytesPerSecond> capacities;
};

Network random_network(Rng& rng) {
  Network network;
  const int64_t links = 1 + rng.below(6);
  for (int64_t l = 0; l < links; ++l)
    network.capacities.push_back(rng.between(1, 10) * unit::GB / unit::s);
  for (int64_t c = 1 + rng.below(8); c > 0; --c) {
    FlowClass flows{.links = {}, .limit = rng.between(0.2e9, 2e9)};
    std::set<int32_t> used{static_cast<int32_t>(rng.below(links)),
                           static_cast<int32_t>(rng.below(links))};
    for (const int32_t link : used)
      flows.links.push_back({link, static_cast<int32_t>(1 + rng.below(3))});
    network.classes.push_back(flows);
  }
  return network;
}

/// All flows at once, each rank named.
std::vector<double> solve_all(const Network& network, const std::vector<int32_t>& counts) {
  std::vector<perf::Flow> flows;
  for (size_t c = 0; c < counts.size(); ++c) {
    perf::Flow flow{.links = {}, .own_limit = BytesPerSecond(network.classes[c].limit)};
    for (const LinkUse& use : network.classes[c].links)
      flow.links.insert(flow.links.end(), static_cast<size_t>(use.ranks), use.link);
    flows.insert(flows.end(), static_cast<size_t>(counts[c]), flow);
  }
  const std::vector<BytesPerSecond> rates = perf::fair_rates(flows, network.capacities);
  std::vector<double> by_class;
  size_t flow = 0;
  for (const int32_t count : counts) {
    by_class.push_back(count > 0 ? rates[flow].in_base_units() : 0);
    flow += static_cast<size_t>(count);
  }
  return by_class;
}

TEST_CASE("rates of flows that come and go are those of all flows solved anew") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Network network = random_network(rng);
    FlowRates rates(network.classes, network.capacities);
    std::vector<int32_t> counts(network.classes.size(), 0);
    for (int event = 0; event < 60; ++event) {
      for (int64_t changes = 1 + rng.below(2); changes > 0; --changes) {
        const auto c = static_cast<size_t>(rng.below(static_cast<int64_t>(counts.size())));
        const bool add = counts[c] == 0 || (counts[c] < 4 && rng.below(2) == 0);
        counts[c] += add ? 1 : -1;
        add ? rates.add(static_cast<int32_t>(c)) : rates.remove(static_cast<int32_t>(c));
      }
      rates.resolve();
      const std::vector<double> expected = solve_all(network, counts);
      for (size_t c = 0; c < counts.size(); ++c)
        CHECK(rates.rate(static_cast<int32_t>(c)) == Approx(expected[c]).epsilon(1e-8));
    }
  }
}

TEST_CASE("a change names the classes that it slows down or speeds up, and no others") {
  const BytesPerSecond nic = 10 * unit::GB / unit::s;
  const std::vector<FlowClass> classes{{.links = {{0, 1}}, .limit = 8e9},
                                       {.links = {{0, 1}}, .limit = 8e9},
                                       {.links = {{1, 1}}, .limit = 8e9}};
  const std::vector<BytesPerSecond> capacities{nic, nic};
  FlowRates rates(classes, capacities);
  const auto changed = [&] {
    const auto named = rates.resolve();
    return std::set<int32_t>(named.begin(), named.end());
  };
  rates.add(0);
  rates.add(2);
  CHECK(changed() == std::set<int32_t>{0, 2});
  rates.add(1);
  CHECK(changed() == std::set<int32_t>{0, 1});
  rates.remove(0);
  CHECK(changed() == std::set<int32_t>{1});
  CHECK(rates.rate(1) == 8e9);
}

TEST_CASE("slots come out of the event queue in the order of their latest times") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    EventQueue queue(20);
    std::vector<std::pair<double, int32_t>> expected(20);
    for (int round = 0; round < 3; ++round)
      for (int32_t slot = 0; slot < 20; ++slot) {
        const auto time = static_cast<double>(rng.below(15));
        expected[static_cast<size_t>(slot)] = {time, slot};
        queue.set(slot, time * unit::s);
      }
    std::sort(expected.begin(), expected.end());
    for (const auto& [time, slot] : expected) {
      CHECK(queue.next_time() == time * unit::s);
      CHECK(queue.pop() == slot);
    }
    CHECK(queue.empty());
  }
}

}  // namespace
}  // namespace triplepoint::sim
