// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/layer_layout.h"

#include "trainer/model/context.h"

namespace triplepoint::trainer {

class Math;
class MemoryLedger;

/// What the runtime does around the parts of a pass: FSDP gathers before and reduces after,
/// gradient buckets start when their last unit is done.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_forward(size_t /*unit*/) {}
  virtual void after_forward(size_t /*unit*/) {}
  virtual void before_recompute(size_t /*unit*/) {}
  virtual void before_backward(size_t /*unit*/) {}
  virtual void after_backward(size_t /*unit*/) {}  // its weight gradients are complete
};

/// The part of the model that one pipeline stage runs as one chunk, on one rank.
///
/// Explicit passes, no tape: forward keeps what backward needs (or less, where the plan
/// recomputes). Boundary arrays are [sharded tokens, hidden] of workload::RankShare. Collectives
/// and their payloads are exactly those that workload::build_work_graph names for the same job; ops
/// emit spans under the workload's names.
class Chunk {
 public:
  Chunk(const spec::Job& job, const workload::ChunkLayers& layers, Communicator& tensor, Math& math,
        MemoryLedger& ledger);
  ~Chunk();
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  std::vector<Unit>& units();
  void set_hooks(UnitHooks*);

  /// First chunk: reads tokens, ignores input. Last chunk: writes no output, adds to loss_sum().
  void forward(const Tokens&, std::span<const float> input, std::span<float> output);
  /// `loss_scale`: what each token's loss counts (1 / tokens of the global batch). Adds to
  /// gradients.
  void backward(const Tokens&, std::span<const float> output_gradient,
                std::span<float> input_gradient, double loss_scale);
  /// The same in two halves (zero bubble): inputs first, weights whenever.
  void backward_input(const Tokens&, std::span<const float> output_gradient,
                      std::span<float> input_gradient, double loss_scale);
  void backward_weight(const Tokens&);

  double take_loss_sum();  // of all tokens since the last call, of this rank's data

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace triplepoint::trainer
