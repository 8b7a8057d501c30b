// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/layer_layout.h"

#include "trainer/math/math.h"
#include "trainer/memory_ledger.h"
#include "trainer/model/chunk.h"
#include "trainer/model/context.h"
#include "trainer/runtime/bucket.h"
#include "trainer/runtime/rank_groups.h"
#include "trainer/runtime/sharding.h"

namespace triplepoint::trainer {

/// The first values of elements [begin, end) of a rank's part of a parameter.
///
///   value(i, j) = mean + standard deviation * normal(seed, name, row i of the whole, column j)
///
/// Keyed by where the element stands in the whole matrix: every layout starts from the same model.
void fill_initial(const Parameter&, uint64_t seed, int64_t begin, std::span<float> values);

/// What a store is made of; all of it outlives the store.
struct StoreParts {
  const spec::Job& job;
  const RankGroups& groups;
  Math& math;
  MemoryLedger& ledger;
};

/// Keeps a rank's parameters, gradients and optimizer states as plan.sharding divides them, and
/// moves them when the chunks' hooks say that it is time.
class ParameterStore {
 public:
  /// `chunks` and `layers`: this rank's, in order.
  ParameterStore(const StoreParts&, const std::vector<Chunk*>& chunks,
                 const std::vector<workload::ChunkLayers>& layers, uint64_t seed);
  ~ParameterStore();
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  void begin_step();
  void begin_forward(size_t chunk);
  void begin_backward(size_t chunk);
  /// What follows is the last backward pass (or weight gradient) of its chunk in this step.
  void set_last_backward(bool last) { reducer_->begin_backward(last); }
  /// All gradients complete: over copies, over tensor ranks (sequence parallelism), over the two
  /// ends of the pipeline (tied embeddings).
  void finish_gradients();
  /// L2 norm of the whole model's gradient; the same on every rank.
  double gradient_norm();
  /// `adam.gradient_scale` and `rate` set; decays what decays; then gathers.
  void update(const AdamW& adam, double weight_decay);
  /// Waits for gathers behind the next forward pass (at the end).
  void settle();

 private:
  class Hooks;

  void allocate();
  void fill(uint64_t seed);
  void add_over(Communicator&, bool (*belongs)(const Bucket&, const Parameter&));
  double own_squares();
  /// The fp32 values that the optimizer keeps of the owned block.
  std::span<float> owned_value(Bucket&);
  void update(Bucket&, const AdamW&, double weight_decay);
  void gather_updated();
  void wait_for(UnitName);

  const spec::Job& job_;
  const RankGroups& groups_;
  Math& math_;
  MemoryLedger& ledger_;
  std::vector<Bucket> buckets_;
  BucketMap map_;
  bool sharded_parameters_, shares_words_;
  std::vector<std::unique_ptr<Hooks>> hooks_;
  std::optional<GradientReducer> reducer_;
  std::optional<ParameterGatherer> gatherer_;
  std::vector<Pending> gathering_;  // per bucket, behind the forward pass
};

}  // namespace triplepoint::trainer
