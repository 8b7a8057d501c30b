// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/cuda/plugin/gpu.h"
#include "trainer/cuda/plugin/gpu_work.h"

namespace triplepoint::trainer::cuda {

/// Collectives of arrays on a GPU, by NCCL on a stream of the group's own; of everything else (sums
/// of some numbers, counts of rows) by the host's communicator that it is made from.
///
/// A collective begins when all that was computed before it is done, and what is computed after its
/// wait() begins when it is done: both are said to the streams, and the host goes on. Where blocks
/// have not one size, a gather is a broadcast per member and a scatter a reduction per member.
///
/// Messages have a communicator of two ranks and a stream per line (open_lines), so that none waits
/// behind another's. A receive is given to NCCL when it is waited for (given earlier, it would hold
/// multiprocessors all the while), or when the host is about to wait for the GPU: it cannot give it
/// then, and the GPU may be waiting for a neighbour that waits until this very message has left.
class GpuCommunicator final : public Communicator {
 public:
  GpuCommunicator(Gpu&, std::unique_ptr<Communicator> host);
  ~GpuCommunicator() override;
  GpuCommunicator(const GpuCommunicator&) = delete;
  GpuCommunicator& operator=(const GpuCommunicator&) = delete;

  spec::GroupKind kind() const override { return host_->kind(); }
  const std::vector<int>& ranks() const override { return host_->ranks(); }
  int index() const override { return host_->index(); }
  Pending all_reduce(std::span<float>, Reduction, Wire) override;
  Pending all_gather(std::span<const float>, std::span<float>, Wire) override;
  Pending reduce_scatter(std::span<const float>, std::span<float>, Reduction, Wire) override;
  Pending all_gather_uneven(std::span<const float>, std::span<float>, std::span<const int64_t>,
                            Wire) override;
  Pending reduce_scatter_uneven(std::span<const float>, std::span<float>, std::span<const int64_t>,
                                Reduction, Wire) override;
  Pending all_to_all(std::span<const float>, std::span<const int64_t>, std::span<float>,
                     std::span<const int64_t>, Wire) override;
  Pending broadcast(std::span<float>, int root, Wire) override;
  Pending send(std::span<const float>, int to, int channel, Wire) override;
  Pending receive(std::span<float>, int from, int channel, Wire) override;
  void open_lines(std::span<const MessageLine>) override;
  void barrier() override { host_->barrier(); }
  const Traffic& traffic(spec::Collective) const override;

 private:
  using LineKey = std::array<int, 3>;  // peer, channel, sends

  bool here(const float* array) const { return gpu_.holds(array); }
  bool joins() const;
  void join_group();
  void meet(const char* what, std::function<int()> join) const;
  void drop(const GpuChannel&) const;
  int type_of(const Array& array) const { return array.bf16 != 0 ? nccl_bf16 : nccl_fp32; }
  /// The array that travels: a copy where the wire is narrower than the storage.
  Array travelling(std::span<const float>, Wire, GpuWork&, bool written);
  std::shared_ptr<GpuWork> work_on(const GpuChannel&);
  Pending start(spec::Collective, std::shared_ptr<GpuWork>, double payload, const ChannelAct&);
  Pending gather(const Array& mine, const Array& whole, const std::vector<int64_t>& blocks,
                 std::shared_ptr<GpuWork>);
  Pending scatter(const Array& whole, const Array& mine, const std::vector<int64_t>& blocks,
                  Reduction, std::shared_ptr<GpuWork>);
  std::vector<int64_t> even_blocks(int64_t count) const;
  void issue_receives();
  void check(int result, const char* what) const { gpu_.libraries().check_nccl(result, what); }

  Gpu& gpu_;
  std::unique_ptr<Communicator> host_;
  GpuChannel group_;
  std::map<LineKey, GpuChannel> lines_;
  std::vector<std::weak_ptr<GpuWork>> posted_;  // receives that may not have been issued yet
  std::array<Traffic, spec::collective_count> own_{}, before_{};  // before_: the host's, of opening
  mutable std::array<Traffic, spec::collective_count> sum_{};
};

}  // namespace triplepoint::trainer::cuda
