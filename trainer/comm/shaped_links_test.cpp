// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/shaped_links.h"

#include <algorithm>
#include <array>

#include <doctest/doctest.h>

#include "triplepoint/mark/mark.h"

#include "trainer/comm/comm_testing.h"
#include "trainer/comm/endpoint.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;
using spec::GroupKind;

const std::vector<int> two_nodes = {0, 0, 1, 1};

/// Nodes of two ranks that share a NIC of 50 MB/s, 2 ms apart.
LinkShapes shapes() {
  spec::Cluster cluster;
  cluster.gpus_per_node = 2;
  cluster.scale_out.nics_per_node = 1;
  cluster.scale_out.nic_bandwidth = 100e6 * (unit::B / unit::s);
  cluster.scale_out.point_to_point_efficiency = 0.5;
  cluster.scale_out.latency = 2 * unit::ms;
  return link_shapes(cluster, two_nodes);
}

constexpr int64_t ms = 1'000'000;

/// Nanoseconds from the first rank's beginning of the work: ranks that begin late only add to it.
template <class Work>
int64_t duration_of(const Work& work) {
  std::array<std::atomic<int64_t>, 4> begins{}, ends{};
  testing::on_transports(thread_transports(4), {.timeout_seconds = 20, .links = shapes()},
                         [&](Endpoint& endpoint) {
                           const auto all = endpoint.communicator(GroupKind::data, {0, 1, 2, 3});
                           const auto rank = static_cast<size_t>(endpoint.rank());
                           begins[rank] = triplepoint_now();
                           work(endpoint, *all);
                           ends[rank] = triplepoint_now();
                         });
  return *std::max_element(ends.begin(), ends.end()) -
         *std::min_element(begins.begin(), begins.end());
}

}  // namespace

TEST_CASE("a collective sends w (p-1)/p of its bytes out of a node, in w (N-1) steps") {
  const auto transports = thread_transports(4);
  const ShapedLinks links(shapes(), *transports[0]);
  const NicLoad reduce = links.collective(Collective::all_reduce, {0, 1, 2, 3}, 1000);
  CHECK(reduce.node_bytes == doctest::Approx(2 * 0.75 * 1000));
  CHECK(reduce.bytes == doctest::Approx(0.5 * reduce.node_bytes));
  CHECK(reduce.steps == 2);
  const NicLoad gather = links.collective(Collective::all_gather, {0, 2}, 1000);
  CHECK(gather.node_bytes == doctest::Approx(500));
  CHECK(gather.bytes == doctest::Approx(500));
  CHECK(gather.steps == 1);
  CHECK(links.collective(Collective::all_reduce, {0, 1}, 1000).steps == 0);
}

TEST_CASE("a NIC takes its loads one after the other, whichever of its ranks they come from") {
  const auto transports = thread_transports(4);
  ShapedLinks first(shapes(), *transports[0]), second(shapes(), *transports[1]);
  const NicLoad load{.bytes = 100e3, .node_bytes = 100e3, .steps = 1};  // 2 ms of 50 MB/s
  CHECK(first.take(10 * ms, load) == 14 * ms);
  CHECK(second.take(10 * ms, load) == 16 * ms);
  CHECK(second.take(30 * ms, load) == 34 * ms);
}

TEST_CASE("no collective and no message is over before a shaped link could have carried it") {
  std::vector<float> data(25'000);  // 100 kB
  const int64_t all_reduce = duration_of([&](Endpoint&, Communicator& all) {
    std::vector<float> mine = data;
    all.all_reduce(mine).wait();
  });
  CHECK(all_reduce >= 7 * ms);  // 150 kB at 50 MB/s, and twice 2 ms
  const int64_t queued = duration_of([&](Endpoint& endpoint, Communicator& all) {
    std::vector<float> mine = data, other = data;
    const int across = (endpoint.rank() + 2) % 4;
    Pending sent = all.send(mine, across, 0);
    all.receive(other, across, 0).wait();
    sent.wait();
  });
  CHECK(queued >= 6 * ms);  // both ranks of a node through one NIC
}

}  // namespace triplepoint::trainer
