// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

namespace triplepoint::perf {
namespace {

using doctest::Approx;

struct Instance {
  std::vector<Flow> flows;
  std::vector<BytesPerSecond> capacities;
};

/// A small generator of our own, so that the instances are the same everywhere.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed * 2654435769U + 1) {}
  int64_t below(int64_t n) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((state_ >> 33U) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

Instance random_instance(uint64_t seed, int64_t most_flows, int64_t most_links) {
  Rng rng(seed);
  Instance instance;
  const int64_t links = 1 + rng.below(most_links);
  for (int64_t l = 0; l < links; ++l)
    instance.capacities.push_back(as_real(1 + rng.below(40)) * unit::GB / unit::s);
  const int64_t flows = 1 + rng.below(most_flows);
  for (int64_t f = 0; f < flows; ++f) {
    Flow flow;
    for (int64_t l = 0; l < links; ++l)
      if (rng.below(3) == 0) flow.links.push_back(static_cast<int32_t>(l));
    if (flow.links.empty()) flow.links.push_back(static_cast<int32_t>(rng.below(links)));
    if (rng.below(4) == 0) flow.own_limit = as_real(1 + rng.below(12)) * unit::GB / unit::s;
    instance.flows.push_back(flow);
  }
  return instance;
}

double used(const Instance& instance, const std::vector<BytesPerSecond>& rates, size_t link) {
  double sum = 0;
  for (size_t f = 0; f < rates.size(); ++f) {
    const auto& links = instance.flows[f].links;
    const auto crossings = std::ranges::count(links, static_cast<int32_t>(link));
    sum += as_real(crossings) * rates[f].in_base_units();
  }
  return sum;
}

bool crosses(const Flow& flow, size_t link) {
  return std::ranges::find(flow.links, static_cast<int32_t>(link)) != flow.links.end();
}

/// The slow reference: raise every open flow by the largest step that no link and no limit forbids.
/// (Flows cross a link once here.)
class StepByStep {
 public:
  explicit StepByStep(const Instance& instance)
      : instance_(instance), rates_(instance.flows.size(), 0), open_(instance.flows.size(), 1) {}

  std::vector<double> run() {
    while (std::ranges::find(open_, 1) != open_.end()) {
      raise(largest_step());
      for (size_t f = 0; f < rates_.size(); ++f)
        if (is_held(f)) open_[f] = 0;
    }
    return rates_;
  }

 private:
  double capacity(size_t link) const { return instance_.capacities[link].in_base_units(); }
  double limit(size_t f) const { return instance_.flows[f].own_limit.in_base_units(); }

  double load(size_t link) const {
    double sum = 0;
    for (size_t f = 0; f < rates_.size(); ++f)
      if (crosses(instance_.flows[f], link)) sum += rates_[f];
    return sum;
  }

  double users(size_t link) const {
    double sum = 0;
    for (size_t f = 0; f < rates_.size(); ++f)
      if (crosses(instance_.flows[f], link)) sum += open_[f];
    return sum;
  }

  bool is_held(size_t f) const {
    constexpr double nearly = 1 - 1e-12;
    if (limit(f) > 0 && rates_[f] >= limit(f) * nearly) return true;
    for (size_t l = 0; l < instance_.capacities.size(); ++l)
      if (crosses(instance_.flows[f], l) && load(l) >= capacity(l) * nearly) return true;
    return false;
  }

  double largest_step() const {
    double step = std::numeric_limits<double>::infinity();
    for (size_t l = 0; l < instance_.capacities.size(); ++l)
      if (users(l) > 0) step = std::min(step, (capacity(l) - load(l)) / users(l));
    for (size_t f = 0; f < rates_.size(); ++f)
      if (open_[f] != 0 && limit(f) > 0) step = std::min(step, limit(f) - rates_[f]);
    return step;
  }

  void raise(double step) {
    for (size_t f = 0; f < rates_.size(); ++f)
      if (open_[f] != 0) rates_[f] += step;
  }

  const Instance& instance_;
  std::vector<double> rates_;
  std::vector<char> open_;
};

TEST_CASE("flows on one link share it alike") {
  const std::vector<Flow> flows(4, Flow{.links = {0}});
  const std::vector<BytesPerSecond> capacities{100 * unit::GB / unit::s};
  for (const BytesPerSecond rate : fair_rates(flows, capacities))
    CHECK(rate / (unit::GB / unit::s) == Approx(25));
}

TEST_CASE("what a limited flow leaves goes to the others") {
  const std::vector<Flow> flows{
      {.links = {0}, .own_limit = 10 * unit::GB / unit::s}, {.links = {0}}, {.links = {0}}};
  const std::vector<BytesPerSecond> capacities{100 * unit::GB / unit::s};
  const auto rates = fair_rates(flows, capacities);
  CHECK(rates[0] / (unit::GB / unit::s) == Approx(10));
  CHECK(rates[1] / (unit::GB / unit::s) == Approx(45));
  CHECK(rates[2] / (unit::GB / unit::s) == Approx(45));
}

TEST_CASE("a flow that crosses a link twice takes it twice") {
  const std::vector<Flow> flows{{.links = {0, 0}}, {.links = {0}}};
  const std::vector<BytesPerSecond> capacities{90 * unit::GB / unit::s};
  for (const BytesPerSecond rate : fair_rates(flows, capacities))
    CHECK(rate / (unit::GB / unit::s) == Approx(30));
}

TEST_CASE("no flows, no links and flows without links are answered") {
  CHECK(fair_rates({}, {}).empty());
  const std::vector<Flow> free{{.links = {}}, {.own_limit = 3 * unit::GB / unit::s}};
  const auto rates = fair_rates(free, {});
  CHECK(std::isinf(rates[0].in_base_units()));
  CHECK(rates[1] / (unit::GB / unit::s) == 3);
}

TEST_CASE("a broken link stops its flows only") {
  const std::vector<Flow> flows{{.links = {0, 1}}, {.links = {1}}};
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

double fastest_on(const Instance& instance, const std::vector<BytesPerSecond>& rates, size_t link) {
  double fastest = 0;
  for (size_t f = 0; f < rates.size(); ++f)
    if (crosses(instance.flows[f], link)) fastest = std::max(fastest, rates[f].in_base_units());
  return fastest;
}

bool has_bottleneck(const Instance& instance, const std::vector<BytesPerSecond>& rates, size_t f) {
  if (rates[f] == instance.flows[f].own_limit) return true;
  for (size_t l = 0; l < instance.capacities.size(); ++l) {
    if (!crosses(instance.flows[f], l)) continue;
    const bool full =
        used(instance, rates, l) >= instance.capacities[l].in_base_units() * (1 - 1e-9);
    if (full && rates[f].in_base_units() >= fastest_on(instance, rates, l) * (1 - 1e-9))
      return true;
  }
  return false;
}

TEST_CASE("every flow is at its own limit or among the fastest on a full link") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Instance instance = random_instance(seed, 40, 12);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    for (size_t f = 0; f < rates.size(); ++f)
      CHECK(has_bottleneck(instance, rates, f));
  }
}

TEST_CASE("water filling equals raising all flows step by step") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Instance instance = random_instance(seed, 24, 8);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    const auto reference = StepByStep(instance).run();
    for (size_t f = 0; f < rates.size(); ++f)
      CHECK(rates[f].in_base_units() == Approx(reference[f]).epsilon(1e-9));
  }
}

TEST_CASE("the order of the flows does not matter") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Instance instance = random_instance(seed, 40, 12);
    const auto rates = fair_rates(instance.flows, instance.capacities);
    std::ranges::reverse(instance.flows);
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
