// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/spec/op.h"

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

class Endpoint;
class GroupTransport;

/// A collective that has been started. Buffers stay as they are until wait() returns.
class Pending {
 public:
  struct State;

  Pending() = default;  // done
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool done();  // makes progress
  void wait();  // throws CommError when a peer stays silent longer than the timeout

 private:
  std::shared_ptr<State> state_;
};

/// What has been moved, as `workload` counts it.
struct Traffic {
  int64_t calls = 0;
  double payload = 0;  // bytes, S of nccl-tests: of the whole array
};

/// A group of ranks. Whatever has been started runs side by side; all members must start the same
/// collectives of a group in the same order.
///
/// Arrays are dealt out in blocks (block_of), so that nothing is padded and payloads are exact.
class Communicator {
 public:
  /// `transport`: null for a group of one. Made by Endpoint.
  Communicator(Endpoint&, std::unique_ptr<GroupTransport> transport, spec::GroupKind,
               std::vector<int> ranks, int index);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  spec::GroupKind kind() const { return kind_; }
  const std::vector<int>& ranks() const { return ranks_; }  // of the job, in group order
  int index() const { return index_; }                      // of this rank in ranks()
  int size() const { return static_cast<int>(ranks_.size()); }

  Pending all_reduce(std::span<float> data, Reduction = Reduction::sum);
  /// whole holds mine at this rank's block afterwards; mine may already lie there.
  Pending all_gather(std::span<const float> mine, std::span<float> whole);
  Pending reduce_scatter(std::span<const float> whole, std::span<float> mine,
                         Reduction = Reduction::sum);
  /// To and from a member; ordered per pair and `channel`.
  Pending send(std::span<const float> data, int to, int channel);
  Pending receive(std::span<float> data, int from, int channel);
  /// All members have come here. Counts as nothing.
  void barrier();

  const Traffic& traffic(spec::Collective collective) const {
    return traffic_[as_size(collective)];
  }
  std::string text() const;  // "tensor group [0, 1]"

 private:
  friend class Endpoint;

  template <class Begin>
  Pending start(spec::Collective, std::optional<int64_t> numbers, const Begin&);

  Endpoint& endpoint_;
  std::unique_ptr<GroupTransport> transport_;
  spec::GroupKind kind_;
  std::vector<int> ranks_;
  int index_;
  std::array<Traffic, spec::collective_count> traffic_{};
};

}  // namespace triplepoint::trainer
