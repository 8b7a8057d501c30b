// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/shaped_transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <utility>

#include <sys/prctl.h>

#include "triplepoint/base/result.h"

#include "trainer/comm/endpoint.h"

namespace triplepoint::trainer {
namespace {

constexpr int stamp_channels = 1 << 16;  // above all channels

struct Shaped {
  bool live = false, receives = false, has_stamp = false, has_bytes = false;
  int64_t arrival_ns = 0;  // the stamp
  Transport::Ticket stamp = 0, bytes = 0;
};

class ShapedTransport final : public Transport {
 public:
  ShapedTransport(std::unique_ptr<Transport> inner, LinkShapes shapes, int64_t (*now)())
      : inner_(std::move(inner)), shapes_(std::move(shapes)), now_(now) {
    TPT_EXPECT(static_cast<int>(shapes_.nodes.size()) == inner_->size());
    if (shapes_.nics.empty()) return;
    TPT_EXPECT(shapes_.nics.size() == shapes_.nodes.size());
    const int nic = shapes_.nics[static_cast<size_t>(inner_->rank())];
    if (nic < most_shared_numbers) nic_free_ = inner_->shared_number(nic);
    if (nic_free_ == nullptr)
      shapes_.across.bandwidth =
          shapes_.across.bandwidth /
          static_cast<double>(std::count(shapes_.nics.begin(), shapes_.nics.end(), nic));
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  Ticket send(int to, int channel, std::span<const std::byte> bytes) override {
    const size_t hop = hop_to(to);
    Shaped& message = make(false, shape(hop).is_shaped());
    if (!message.has_stamp) {
      message.arrival_ns = arrival(hop, bytes.size());
      message.stamp = inner_->send(to, channel + stamp_channels,
                                   std::as_bytes(std::span(&message.arrival_ns, 1)));
    }
    message.bytes = inner_->send(to, channel, bytes);
    return newest_;
  }

  Ticket receive(int from, int channel, std::span<std::byte> bytes) override {
    Shaped& message = await_stamp(from, channel);
    message.bytes = inner_->receive(from, channel, bytes);
    return newest_;
  }

  /// Numbers may be there before their time; that they are is said when it has come.
  bool can_reduce_on_receive() const override { return inner_->can_reduce_on_receive(); }

  Ticket receive_reduce(int from, int channel, size_t size,
                        const ReduceTarget& reduce_target) override {
    Shaped& message = await_stamp(from, channel);
    message.bytes = inner_->receive_reduce(from, channel, size, reduce_target);
    return newest_;
  }

  bool done(Ticket ticket) override {
    Shaped& message = *messages_[static_cast<size_t>(ticket)];
    if (!message.has_stamp) message.has_stamp = inner_->done(message.stamp);
    if (!message.has_bytes) message.has_bytes = inner_->done(message.bytes);
    if (!message.has_stamp || !message.has_bytes) return false;
    if (message.receives && message.arrival_ns > now_()) {
      next_arrival_ = std::min(next_arrival_.load(), message.arrival_ns);
      return false;
    }
    free_.push_back(static_cast<size_t>(ticket));
    return true;
  }

  void abort(const char* why) override { inner_->abort(why); }

  /// Until the next arrival, or what moves inside of the node before it.
  void rest(int looks, std::chrono::nanoseconds longest) override {
    // By default a sleep may last 50 us longer, which is the latency of a link.
    thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1UL);
    static_cast<void>(exact);
    const int64_t next = next_arrival_.exchange(never);
    if (next == never) return inner_->rest(looks, longest);
    const std::chrono::nanoseconds left(next - now_());
    if (left.count() > 0) inner_->rest(sleep_at_once, std::min(longest, left));
  }

 private:
  Shaped& await_stamp(int from, int channel) {
    Shaped& message = make(true, shape(hop_to(from)).is_shaped());
    if (!message.has_stamp)
      message.stamp = inner_->receive(from, channel + stamp_channels,
                                      std::as_writable_bytes(std::span(&message.arrival_ns, 1)));
    return message;
  }

  static constexpr int64_t never = std::numeric_limits<int64_t>::max();

  size_t hop_to(int peer) const {
    const auto node = [&](int rank) { return shapes_.nodes[static_cast<size_t>(rank)]; };
    return node(peer) == node(rank()) ? 0 : 1;
  }
  const HopShape& shape(size_t hop) const { return hop == 0 ? shapes_.in_node : shapes_.across; }

  int64_t arrival(size_t hop, size_t bytes) {
    const double rate = shape(hop).bandwidth / (unit::B / unit::s);
    const double seconds = rate > 0 ? static_cast<double>(bytes) / rate : 0;
    const auto busy = static_cast<int64_t>(seconds * 1e9);
    std::atomic<int64_t>& free = hop == 1 && nic_free_ != nullptr ? *nic_free_ : link_free_[hop];
    int64_t before = free.load(), after = 0;
    do
      after = std::max(before, now_()) + busy;
    while (!free.compare_exchange_weak(before, after));
    return after + static_cast<int64_t>(shape(hop).latency / unit::s * 1e9);
  }

  Shaped& make(bool receives, bool shaped) {
    if (free_.empty()) {
      free_.push_back(messages_.size());
      messages_.push_back(std::make_unique<Shaped>());
    }
    newest_ = free_.back();
    free_.pop_back();
    *messages_[newest_] = {.live = true, .receives = receives, .has_stamp = !shaped};
    return *messages_[newest_];
  }

  std::unique_ptr<Transport> inner_;
  LinkShapes shapes_;
  int64_t (*now_)();
  std::array<std::atomic<int64_t>, 2> link_free_{};
  std::atomic<int64_t>* nic_free_ = nullptr;
  std::vector<std::unique_ptr<Shaped>> messages_;
  std::vector<size_t> free_;
  size_t newest_ = 0;
  std::atomic<int64_t> next_arrival_{never};
};

}  // namespace

LinkShapes link_shapes(const spec::Cluster& cluster, std::vector<int> nodes) {
  const spec::ScaleOut& out = cluster.scale_out;
  const int64_t ranks = std::max<int64_t>(1, cluster.gpus_per_node);
  const int64_t nics = std::max<int64_t>(1, std::min(out.nics_per_node, ranks));
  const double nics_of_a_rank =
      std::max(1.0, static_cast<double>(out.nics_per_node) / static_cast<double>(ranks));
  LinkShapes shapes{
      .nodes = std::move(nodes),
      .nics = {},
      .in_node = {},
      .across = {out.nic_bandwidth * nics_of_a_rank * out.point_to_point_efficiency, out.latency}};
  for (size_t rank = 0; rank < shapes.nodes.size(); ++rank) {
    const int node = shapes.nodes[rank];
    const auto here = shapes.nodes.begin();
    const int64_t place = std::count(here, here + static_cast<std::ptrdiff_t>(rank), node);
    shapes.nics.push_back(static_cast<int>(node * nics + place % ranks * nics / ranks));
  }
  return shapes;
}

int64_t across_segment_bytes(const LinkShapes& shapes) {
  const int64_t sharers = std::count(shapes.nics.begin(), shapes.nics.end(), shapes.nics.front());
  return EndpointSettings().across_segment_bytes / sharers;
}

std::unique_ptr<Transport> shaped_transport(std::unique_ptr<Transport> inner, LinkShapes shapes,
                                            int64_t (*now)()) {
  return std::make_unique<ShapedTransport>(std::move(inner), std::move(shapes), now);
}

}  // namespace triplepoint::trainer
