// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/spec/op.h"

namespace triplepoint::trainer {

enum class Reduction { sum, maximum };

/// How a collective is carried out. `hierarchical`: inside nodes first, then one rank per node.
enum class Algorithm { automatic, ring, recursive_doubling, tree, hierarchical, pairwise, native };

/// Numbers are floats in memory; on the wire they may be rounded to bf16, two bytes each.
enum class Wire { fp32, bf16 };

/// What a started collective answers.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  virtual bool done() = 0;  // makes progress
  virtual void wait() = 0;  // throws CommError when a peer stays silent longer than the timeout
};

/// A collective that has been started. Buffers stay as they are until wait() returns.
class Pending {
 public:
  Pending() = default;  // done
  explicit Pending(std::shared_ptr<PendingWork> work) : work_(std::move(work)) {}
  bool done() { return work_ == nullptr || work_->done(); }
  void wait() {
    if (work_ != nullptr) work_->wait();
    work_.reset();
  }

  struct State;

 private:
  std::shared_ptr<PendingWork> work_;
};

/// What has been moved, as `workload` counts it and as the links saw it.
struct Traffic {
  int64_t calls = 0;
  double payload = 0;                         // bytes, S of nccl-tests: of the whole array
  double sent_in_node = 0, sent_across = 0;   // bytes this rank put on the wire
  double busy_seconds = 0, wait_seconds = 0;  // start to end; of it blocked in wait()
};

/// A group of ranks. Collectives on one communicator are carried out in the order in which they
/// are started, as on a stream; those of different communicators run side by side. All members
/// must start the same ones in the same order.
///
/// Blocks of an array of n numbers over p ranks: block i is [n i / p, n (i + 1) / p) (whole
/// numbers, rounded down), so that nothing is padded and payloads are exact.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual spec::GroupKind kind() const = 0;
  virtual const std::vector<int>& ranks() const = 0;  // of the job, in group order
  virtual int index() const = 0;                      // of this rank in ranks()
  int size() const { return static_cast<int>(ranks().size()); }

  virtual Pending all_reduce(std::span<float> data, Reduction = Reduction::sum,
                             Wire = Wire::fp32) = 0;
  /// whole holds mine at this rank's block afterwards; mine may already lie there.
  virtual Pending all_gather(std::span<const float> mine, std::span<float> whole,
                             Wire = Wire::fp32) = 0;
  virtual Pending reduce_scatter(std::span<const float> whole, std::span<float> mine,
                                 Reduction = Reduction::sum, Wire = Wire::fp32) = 0;
  /// The same where member i's block has counts[i] numbers; blocks lie one after the other.
  virtual Pending all_gather_uneven(std::span<const float> mine, std::span<float> whole,
                                    std::span<const int64_t> counts, Wire = Wire::fp32) = 0;
  virtual Pending reduce_scatter_uneven(std::span<const float> whole, std::span<float> mine,
                                        std::span<const int64_t> counts, Reduction = Reduction::sum,
                                        Wire = Wire::fp32) = 0;
  /// Counts per peer, in group order; blocks lie one after the other.
  virtual Pending all_to_all(std::span<const float> send, std::span<const int64_t> send_counts,
                             std::span<float> receive, std::span<const int64_t> receive_counts,
                             Wire = Wire::fp32) = 0;
  virtual Pending broadcast(std::span<float> data, int root, Wire = Wire::fp32) = 0;
  /// To and from a member; ordered per pair and `channel`.
  virtual Pending send(std::span<const float> data, int to, int channel, Wire = Wire::fp32) = 0;
  virtual Pending receive(std::span<float> data, int from, int channel, Wire = Wire::fp32) = 0;
  /// All members have come here. Counts as nothing.
  virtual void barrier() = 0;

  /// By collective, in the order of spec::Collective.
  virtual const Traffic& traffic(spec::Collective) const = 0;
};

}  // namespace triplepoint::trainer
