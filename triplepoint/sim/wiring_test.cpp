// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/wiring.h"

#include <doctest/doctest.h>

namespace triplepoint::sim {
namespace {

using Pipelines = std::vector<std::vector<StageBoundaries>>;

constexpr BytesPerSecond nic = 10 * unit::GB / unit::s;

/// 1 MB per rank at up to `rate`.
Boundary tensor(BytesPerSecond rate, std::vector<LinkUse> links) {
  return {.bytes_per_rank = 1 * unit::MB,
          .latency = 10 * unit::us,
          .transfer = 1 * unit::MB / rate,
          .links = std::move(links)};
}

/// Two stages, the first sends over the links.
std::vector<StageBoundaries> one_way(BytesPerSecond rate, std::vector<LinkUse> links) {
  return {{.next = tensor(rate, std::move(links))}, {}};
}

Wiring wire_up(const Pipelines& pipelines, size_t links, SendMode mode = SendMode::blocking) {
  return {pipelines, std::vector<BytesPerSecond>(links, nic), mode};
}

bool any_flows(const Wiring& wiring) {
  return !wiring.classes().empty();
}

TEST_CASE("senders that fit into a link together need no flows") {
  CHECK_FALSE(any_flows(wire_up({one_way(nic, {{0, 1}})}, 1)));
  CHECK_FALSE(any_flows(wire_up({one_way(0.5 * nic, {{0, 1}}), one_way(0.5 * nic, {{0, 1}})}, 1)));
  CHECK(any_flows(wire_up({one_way(0.5 * nic, {{0, 1}}), one_way(0.6 * nic, {{0, 1}})}, 1)));
  CHECK(any_flows(wire_up({one_way(0.5 * nic, {{0, 2}}), one_way(0.5 * nic, {{0, 2}})}, 1)));
}

TEST_CASE("a stage that blocks sends one way at a time, one that does not sends both ways") {
  Pipelines pipelines{std::vector<StageBoundaries>(3)};
  pipelines[0][1] = {.next = tensor(nic, {{0, 1}}), .previous = tensor(nic, {{0, 1}})};
  CHECK_FALSE(any_flows(wire_up(pipelines, 1, SendMode::blocking)));
  CHECK(any_flows(wire_up(pipelines, 1, SendMode::overlapped)));
}

TEST_CASE("ranks of a group on one NIC share it: alone, the tensor takes as many times longer") {
  for (const int32_t ranks : {1, 2, 8}) {
    const Wiring wiring = wire_up({one_way(nic, {{0, ranks}})}, 1);
    const Wire& wire = wiring.wires(0)[0];
    CHECK((wire.alone - wire.latency) / (1 * unit::MB / nic) == doctest::Approx(ranks));
  }
}

TEST_CASE("a link that is named twice counts twice") {
  const Wiring twice = wire_up({one_way(nic, {{0, 1}, {0, 1}})}, 1);
  const Wiring both = wire_up({one_way(nic, {{0, 2}})}, 1);
  CHECK(twice.wires(0)[0].alone == both.wires(0)[0].alone);
}

TEST_CASE("of links with the same users only the tightest stays") {
  const Pipelines pipelines{one_way(nic, {{0, 1}, {1, 1}, {2, 1}}),
                            one_way(nic, {{0, 1}, {1, 1}, {2, 1}})};
  const std::vector<BytesPerSecond> capacities{1.5 * nic, 1.1 * nic, 1.2 * nic};
  const Wiring wiring(pipelines, capacities, SendMode::blocking);
  REQUIRE(wiring.capacities().size() == 1);
  CHECK(wiring.capacities()[0] == capacities[1]);
  CHECK(wiring.classes().size() == 1);
}

TEST_CASE("pipelines are simulated together only where a link that can bind joins them") {
  const Wiring wiring =
      wire_up({one_way(nic, {{0, 1}}), one_way(nic, {{1, 1}}), one_way(nic, {{0, 1}}),
               one_way(0.1 * nic, {{2, 1}}), one_way(nic, {{1, 1}, {0, 1}})},
              3);
  REQUIRE(wiring.clusters().size() == 2);
  CHECK(wiring.clusters()[0].pipelines == std::vector<size_t>{0, 1, 2, 4});
  CHECK(wiring.clusters()[0].has_flows);
  CHECK(wiring.clusters()[1].pipelines == std::vector<size_t>{3});
  CHECK_FALSE(wiring.clusters()[1].has_flows);
}

TEST_CASE("a pipeline of one stage has nothing to send") {
  const Pipelines pipelines{{{.next = tensor(nic, {{0, 1}}), .previous = tensor(nic, {{0, 1}})}},
                            {{.next = tensor(nic, {{0, 1}}), .previous = tensor(nic, {{0, 1}})}}};
  const Wiring wiring = wire_up(pipelines, 1);
  CHECK_FALSE(any_flows(wiring));
  CHECK(wiring.wires(0)[0].alone == Seconds());
}

}  // namespace
}  // namespace triplepoint::sim
