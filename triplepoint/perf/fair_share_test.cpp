// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

namespace triplepoint::perf {
namespace {

using doctest::Approx;

struct Instance {
  std::vector<Flow> flows;
  std::vector<BytesPerSecond> capacities;
};

/// A small generator of our own, so that the instances are the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 2654435769U + 1) {}
  int64_t below(int64_t n) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state_ >> 33U) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

Instance random_instance(uint64_t seed, int64_t most_flows, int64_t most_links) {
  Dice dice(seed);
  Instance instance;
  const int64_t links = 1 + dice.below(most_links);
  for (int64_t l = 0; l < links; ++l)
    instance.capacities.push_back(static_cast<double>(1 + dice.below(40)) * unit::GB / unit::s);
  const int64_t flows = 1 + dice.below(most_flows);
  for (int64_t f = 0; f < flows; ++f) {
    Flow flow;
    for (int64_t l = 0; l < links; ++l)
      if (dice.below(3) == 0) flow.links.push_back(static_cast<int32_t>(l));
    if (flow.links.empty()) flow.links.push_back(static_cast<int32_t>(dice.below(links)));
    if (dice.below(4) == 0)
      flow.own_limit = static_cast<double>(1 + dice.below(12)) * unit::GB / unit::s;
    instance.flows.push_back(flow);
  }
  return instance;
}

double used(const Instance& instance, const std::vector<BytesPerSecond>& rates, size_t link) {
  double sum = 0;
  for (size_t f = 0; f < rates.size(); ++f) {
    const auto& links = instance.flows[f].links;
    const auto crossings = std::count(links.begin(), links.end(), static_cast<int32_t>(link));
    sum += static_cast<double>(crossings) * rates[f].in_base_units();
  }
  return sum;
}

/// The slow reference: raise every open flow by the largest step that no link and no limit forbids.
std::vector<double> raised_step_by_step(const Instance& instance) {
  std::vector<double> rates(instance.flows.size(), 0);
  std::vector<char> open(instance.flows.size(), 1);
  const auto is_full = [&](const Flow& flow, double rate) {
    if (flow.own_limit > BytesPerSecond() && rate >= flow.own_limit.in_base_units() * (1 - 1e-12))
      return true;
    for (const int32_t l : flow.links) {
      double load = 0;
      for (size_t f = 0; f < rates.size(); ++f) {
        const auto& links = instance.flows[f].links;
        if (std::find(links.begin(), links.end(), l) != links.end()) load += rates[f];
      }
      if (load >= instance.capacities[static_cast<size_t>(l)].in_base_units() * (1 - 1e-12))
        return true;
    }
    return false;
  };
  const auto largest_step = [&] {
    double step = std::numeric_limits<double>::infinity();
    for (size_t l = 0; l < instance.capacities.size(); ++l) {
      double load = 0, users = 0;
      for (size_t f = 0; f < rates.size(); ++f) {
        const auto& links = instance.flows[f].links;
        if (std::find(links.begin(), links.end(), static_cast<int32_t>(l)) == links.end()) continue;
        load += rates[f];
        users += open[f];
      }
      if (users > 0) step = std::min(step, (instance.capacities[l].in_base_units() - load) / users);
    }
    for (size_t f = 0; f < rates.size(); ++f)
      if (open[f] != 0 && instance.flows[f].own_limit > BytesPerSecond())
        step = std::min(step, instance.flows[f].own_limit.in_base_units() - rates[f]);
    return step;
  };
  while (std::find(open.begin(), open.end(), 1) != open.end()) {
    const double step = largest_step();
    for (size_t f = 0; f < rates.size(); ++f)
      if (open[f] != 0) rates[f] += step;
    for (size_t f = 0; f < rates.size(); ++f)
      if (open[f] != 0 && is_full(instance.flows[f], rates[f])) open[f] = 0;
  }
  return rates;
}

TEST_CASE("flows on one link share it alike") {
  const std::vector<Flow> flows(4, Flow{.links = {0}, .own_limit = {}});
  const std::vector<BytesPerSecond> capacities{100 * unit::GB / unit::s};
  for (const BytesPerSecond rate : fair_rates(flows, capacities))
    CHECK(rate / (unit::GB / unit::s) == Approx(25));
}

TEST_CASE("what a limited flow leaves goes to the others") {
  const std::vector<Flow> flows{{.links = {0}, .own_limit = 10 * unit::GB / unit::s},
                                {.links = {0}, .own_limit = {}},
                                {.links = {0}, .own_limit = {}}};
  const std::vector<BytesPerSecond> capacities{100 * unit::GB / unit::s};
  const auto rates = fair_rates(flows, capacities);
  CHECK(rates[0] / (unit::GB / unit::s) == Approx(10));
  CHECK(rates[1] / (unit::GB / unit::s) == Approx(45));
  CHECK(rates[2] / (unit::GB / unit::s) == Approx(45));
}

TEST_CASE("a flow that crosses a link twice takes it twice") {
  const std::vector<Flow> flows{{.links = {0, 0}, .own_limit = {}},
                                {.links = {0}, .own_limit = {}}};
  const std::vector<BytesPerSecond> capacities{90 * unit::GB / unit::s};
  for (const BytesPerSecond rate : fair_rates(flows, capacities))
    CHECK(rate / (unit::GB / unit::s) == Approx(30));
}

TEST_CASE("no flows, no links and flows without links are answered") {
  CHECK(fair_rates({}, {}).empty());
  const std::vector<Flow> free{{.links = {}, .own_limit = {}},
                               {.links = {}, .own_limit = 3 * unit::GB / unit::s}};
  const auto rates = fair_rates(free, {});
  CHECK(std::isinf(rates[0].in_base_units()));
  CHECK(rates[1] / (unit::GB / unit::s) == 3);
}

TEST_CASE("a broken link stops its flows only") {
  const std::vector<Flow> flows{{.links = {0, 1}, .own_limit = {}},
                                {.links = {1}, .own_limit = {}}};
  const std::vector<BytesPerSecond> capacities{BytesPerSecond(), 50 * unit::GB / unit::s};
  const auto rates = fair_rates(flows, capacities);
  CHECK(rates[0] == BytesPerSecond());
  CHECK(rates[1] / (unit::GB / unit::s) == Approx(50));
}

TEST_CASE("no link carries more than it can") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Instance instance = random_instance(seed, 40, 12);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    for (size_t l = 0; l < instance.capacities.size(); ++l)
      CHECK(used(instance, rates, l) <= instance.capacities[l].in_base_units() * (1 + 1e-9));
  }
}

TEST_CASE("every flow is at its own limit or among the fastest on a full link") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Instance instance = random_instance(seed, 40, 12);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    for (size_t f = 0; f < rates.size(); ++f) {
      const double rate = rates[f].in_base_units();
      bool held = rates[f] == instance.flows[f].own_limit;
      for (const int32_t l : instance.flows[f].links) {
        const auto link = static_cast<size_t>(l);
        double fastest = 0;
        for (size_t g = 0; g < rates.size(); ++g) {
          const auto& links = instance.flows[g].links;
          if (std::find(links.begin(), links.end(), l) != links.end())
            fastest = std::max(fastest, rates[g].in_base_units());
        }
        const bool full =
            used(instance, rates, link) >= instance.capacities[link].in_base_units() * (1 - 1e-9);
        held = held || (full && rate >= fastest * (1 - 1e-9));
      }
      CHECK(held);
    }
  }
}

TEST_CASE("water filling equals raising all flows step by step") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Instance instance = random_instance(seed, 24, 8);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    const auto reference = raised_step_by_step(instance);
    for (size_t f = 0; f < rates.size(); ++f)
      CHECK(rates[f].in_base_units() == Approx(reference[f]).epsilon(1e-9));
  }
}

TEST_CASE("the order of the flows does not matter") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Instance instance = random_instance(seed, 40, 12);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    std::reverse(instance.flows.begin(), instance.flows.end());
    const auto reversed = fair_rates(instance.flows, instance.capacities);
    for (size_t f = 0; f < rates.size(); ++f)
      CHECK(rates[f].in_base_units() ==
            Approx(reversed[rates.size() - 1 - f].in_base_units()).epsilon(1e-12));
  }
}

TEST_CASE("used scratch memory gives the same bits as fresh memory") {
  FairShareScratch scratch;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Instance instance = random_instance(seed, 60, 20);
    std::vector<BytesPerSecond> rates(instance.flows.size());
    fair_rates(instance.flows, instance.capacities, scratch, rates);
    CHECK(rates == fair_rates(instance.flows, instance.capacities));
  }
}

}  // namespace
}  // namespace triplepoint::perf
