// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/shaped_transport.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/mark/mark.h"

#include "trainer/comm/comm_testing.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {
namespace {

using spec::GroupKind;

}  // namespace

TEST_CASE("no message arrives before a shaped link could have carried it, in-node ones do") {
  spec::Cluster cluster;
  cluster.gpus_per_node = 2;
  cluster.scale_out.nics_per_node = 2;
  cluster.scale_out.nic_bandwidth = 100e6 * (unit::B / unit::s);
  cluster.scale_out.point_to_point_efficiency = 0.5;
  cluster.scale_out.latency = 0.002 * unit::s;
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::unique_ptr<Transport>& inner : thread_transports(4))
    transports.push_back(shaped_transport(std::move(inner), link_shapes(cluster, {0, 0, 1, 1})));
  std::array<std::atomic<int64_t>, 4> begins{};
  testing::on_transports(
      std::move(transports), {.timeout_seconds = 20, .nodes = {0, 0, 1, 1}},
      [&](Endpoint& endpoint) {
        const auto all = endpoint.communicator(GroupKind::data, {0, 1, 2, 3});
        const int across = (endpoint.rank() + 2) % 4;
        std::vector<float> data(25'000, static_cast<float>(endpoint.rank()));
        std::vector<float> first(25'000), second(25'000);
        begins[static_cast<size_t>(endpoint.rank())] = triplepoint_now();
        Pending sent = all->send(data, across, 0), again = all->send(data, across, 0);
        const auto since_sent = [&] {
          return triplepoint_now() - begins[static_cast<size_t>(across)];
        };
        all->receive(first, across, 0).wait();
        TPT_SAME(since_sent() >= 4'000'000, true);  // 100 kB at 50 MB/s, and 2 ms
        all->receive(second, across, 0).wait();
        TPT_SAME(since_sent() >= 6'000'000, true);  // it has queued behind the first
        sent.wait();
        again.wait();
        TPT_SAME(second.back(), static_cast<float>(across));
      });
}

TEST_CASE("ranks of a node that share a NIC queue on it") {
  spec::Cluster cluster;
  cluster.gpus_per_node = 2;
  cluster.scale_out.nics_per_node = 1;
  cluster.scale_out.nic_bandwidth = 50e6 * (unit::B / unit::s);
  cluster.scale_out.point_to_point_efficiency = 1;
  for (const bool shared : {false, true}) {
    std::vector<std::unique_ptr<Transport>> transports;
    for (std::unique_ptr<Transport>& inner : shared ? shared_transports(4) : thread_transports(4))
      transports.push_back(shaped_transport(std::move(inner), link_shapes(cluster, {0, 0, 1, 1})));
    std::array<std::atomic<int64_t>, 2> begins{}, ends{};
    testing::on_transports(std::move(transports), {.timeout_seconds = 20, .nodes = {0, 0, 1, 1}},
                           [&](Endpoint& endpoint) {
                             const auto pair = endpoint.communicator(
                                 GroupKind::pipeline,
                                 {endpoint.rank() % 2, endpoint.rank() % 2 + 2});
                             const auto place = static_cast<size_t>(endpoint.rank() % 2);
                             std::vector<float> data(25'000);
                             if (endpoint.rank() < 2) {
                               begins[place] = triplepoint_now();
                               pair->send(data, 1, 0).wait();
                             } else {
                               pair->receive(data, 0, 0).wait();
                               ends[place] = triplepoint_now();
                             }
                           });
    // Two times 100 kB through one NIC of 50 MB/s.
    CHECK(std::max(ends[0], ends[1]) - std::min(begins[0], begins[1]) >= 4'000'000);
  }
}

namespace {

int64_t modelled_ns = 0;
int64_t modelled_now() {
  return modelled_ns;
}

constexpr Seconds hop = 50 * unit::us;

/// Nodes whose ranks share a NIC of 100 MB/s.
std::vector<std::unique_ptr<Transport>> shaped_by_modelled_clock(const std::vector<int>& nodes,
                                                                 Seconds latency) {
  spec::Cluster cluster;
  cluster.gpus_per_node = std::count(nodes.begin(), nodes.end(), 0);
  cluster.scale_out.nics_per_node = 1;
  cluster.scale_out.nic_bandwidth = 100e6 * (unit::B / unit::s);
  cluster.scale_out.point_to_point_efficiency = 1;
  cluster.scale_out.latency = latency;
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::unique_ptr<Transport>& inner : thread_transports(static_cast<int>(nodes.size())))
    transports.push_back(
        shaped_transport(std::move(inner), link_shapes(cluster, nodes), modelled_now));
  return transports;
}

/// Seconds of an all-reduce whose ranks compute in no time, polled by one thread every microsecond.
double modelled_all_reduce(const std::vector<int>& nodes, int64_t count) {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::unique_ptr<Communicator>> groups;
  std::vector<int> everybody(nodes.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  for (std::unique_ptr<Transport>& transport : shaped_by_modelled_clock(nodes, hop)) {
    endpoints.push_back(std::make_unique<Endpoint>(
        std::move(transport), EndpointSettings{.timeout_seconds = 20, .nodes = nodes}));
    groups.push_back(endpoints.back()->communicator(GroupKind::data, everybody));
  }
  std::vector<std::vector<float>> data(nodes.size(),
                                       std::vector<float>(static_cast<size_t>(count)));
  const int64_t begin = modelled_ns;
  std::vector<Pending> pending;
  for (size_t rank = 0; rank < nodes.size(); ++rank)
    pending.push_back(groups[rank]->all_reduce(data[rank]));
  for (size_t done = 0; done < nodes.size(); modelled_ns += 1000) {
    done = 0;
    for (Pending& each : pending)
      done += each.done() ? 1 : 0;
  }
  return static_cast<double>(modelled_ns - begin) * 1e-9;
}

}  // namespace

TEST_CASE("a shaped all-reduce of N nodes takes 2 (N-1)/N of its bytes over a NIC, within 5 %") {
  for (const std::vector<int>& nodes :
       {std::vector{0, 1}, {0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}})
    for (const int64_t count : {16'384, 65'536, 262'144, 1'000'000}) {
      CAPTURE(nodes.size());
      CAPTURE(count);
      const double hops = nodes.back();
      const double wire = 2 * hops / (hops + 1) * 4.0 * static_cast<double>(count) / 100e6;
      const double seconds = modelled_all_reduce(nodes, count);
      CHECK(seconds >= wire);
      CHECK(seconds <= 1.05 * (wire + 2 * hops * (hop / unit::s)));
    }
}

TEST_CASE("a rank that awaits a slow link wakes up for a message inside of its node") {
  auto transports = shaped_by_modelled_clock({0, 0, 1}, 20 * unit::s);
  std::array<std::byte, 8> far{}, near{}, sent{};
  const Transport::Ticket slow = transports[0]->receive(2, 0, far);
  const Transport::Ticket quick = transports[0]->receive(1, 0, near);
  transports[2]->send(0, 0, sent);
  CHECK_FALSE(transports[0]->done(slow));  // the modelled clock stands still
  std::thread neighbour([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    transports[1]->send(0, 0, sent);
  });
  const auto begin = std::chrono::steady_clock::now();
  for (int looks = 0; !transports[0]->done(quick); ++looks) {
    CHECK_FALSE(transports[0]->done(slow));
    transports[0]->rest(looks, std::chrono::seconds(30));
  }
  neighbour.join();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
}

}  // namespace triplepoint::trainer
