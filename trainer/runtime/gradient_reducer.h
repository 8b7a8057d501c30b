// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "trainer/math/math.h"
#include "trainer/runtime/bucket.h"
#include "trainer/runtime/bucket_map.h"

namespace triplepoint::trainer {

/// Brings the gradients of all copies together.
///
/// Two ways, by the plan. Whole gradients add up over the microbatches and are reduced once a step:
/// behind the last microbatch's backward pass where plan.overlap_gradient, else after it. Or each
/// microbatch's are reduced as soon as a bucket is complete, and only the owned block adds up
/// (FSDP; ZeRO-2 where the stack accumulates shards, or where there is one microbatch).
class GradientReducer {
 public:
  GradientReducer(const spec::Job&, std::vector<Bucket>&, Math&, MemoryLedger&);

  static bool reduces_each_microbatch(const spec::Job&);

  void begin_step();
  void begin_backward(bool last_of_chunk) { last_ = last_of_chunk; }
  void before_backward(UnitName);
  /// Gives a unit's gradients a place before its own turn: a tied head adds to the embedding's.
  void prepare(UnitName);
  void after_backward(UnitName);
  /// Everything that is not yet reduced, and waits for all of it.
  void finish();

 private:
  struct Open {
    FlatArray gradient;
    int64_t opened = 0, closed = 0;
    bool reduced = false;  // this step, once
  };
  struct PendingReduction {
    size_t bucket = 0;
    FlatArray whole, mine;
    Pending pending;
  };

  void attach(size_t index);
  void reduce_microbatch(size_t index);
  void reduce_step(size_t index);
  void start(size_t index, std::span<float> whole, PendingReduction reduction);
  void drain();
  void complete(PendingReduction&);

  const spec::Job& job_;
  std::vector<Bucket>& buckets_;
  BucketMap map_;
  Math& math_;
  MemoryLedger& ledger_;
  Wire wire_;
  bool each_, behind_, last_ = false;
  std::vector<Open> open_;  // per bucket
  std::deque<PendingReduction> under_way_;
};

/// This rank's part of the gradient, complete after finish().
std::span<float> owned_gradient(Bucket&);

}  // namespace triplepoint::trainer
