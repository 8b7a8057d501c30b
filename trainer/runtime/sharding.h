// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "trainer/math/math.h"
#include "trainer/runtime/bucket.h"

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
    Buffer gradient;
    int64_t opened = 0, closed = 0;
    bool reduced = false;  // this step, once
  };
  struct PendingReduction {
    size_t bucket = 0;
    Buffer whole, mine;
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
  bool each_, behind_, last_ = false;
  std::vector<Open> open_;  // per bucket
  std::deque<PendingReduction> under_way_;
};

/// This rank's part of the gradient, complete after finish().
std::span<float> owned_gradient(Bucket&);

/// FSDP: makes a unit's parameters whole before it is used, and lets go of them after it.
///
/// Per microbatch: once for the forward pass; for a layer that was let go after it, again for the
/// backward pass, and a third time where it is recomputed. Embedding and head stay (FSDP's root
/// unit).
/// `plan.prefetch_depth` gathers are under way ahead of the one that is needed.
class ParameterGatherer {
 public:
  struct Chunk {
    size_t units = 0;
    std::vector<bool> is_layer, is_recomputed;  // per unit
  };
  ParameterGatherer(const spec::Job&, std::vector<Bucket>&, std::vector<Chunk>, Math&,
                    MemoryLedger&);

  void begin_forward(size_t chunk);
  void begin_backward(size_t chunk);
  void before_forward(UnitName);
  void after_forward(UnitName);
  void before_recompute(UnitName);
  void before_backward(UnitName);
  void after_backward(UnitName);

 private:
  enum class Use { forward, recompute, backward };
  struct Event {
    UnitName name;
    Use use;
  };
  /// One bucket on its way to being whole, or whole.
  struct Gather {
    Buffer whole;
    Pending pending;
  };
  struct UnitGathers {
    std::deque<Gather> coming;
    Gather now;
    int64_t open_forward = 0, open_backward = 0;
  };

  void start(const Event&);
  void start(size_t index);
  void reach(UnitName, Use);
  void bind(size_t index);
  void let_go(UnitName);
  bool resharded(UnitName) const;
  bool alone(const Bucket&) const;

  const spec::Job& job_;
  std::vector<Bucket>& buckets_;
  BucketMap map_;
  std::vector<Chunk> chunks_;
  Math& math_;
  MemoryLedger& ledger_;
  std::vector<UnitGathers> held_;  // per bucket
  std::vector<Event> sequence_;
  size_t started_ = 0, reached_ = 0;
};

}  // namespace triplepoint::trainer
