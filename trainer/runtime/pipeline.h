// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/schedule.h"

#include "trainer/model/chunk.h"
#include "trainer/runtime/mailbox.h"
#include "trainer/runtime/parameter_store.h"
#include "trainer/runtime/token_source.h"

namespace triplepoint::trainer {

/// What a pipeline is made of; all of it outlives the pipeline.
struct PipelineParts {
  const spec::Job& job;
  const RankGroups& groups;
  const std::vector<Chunk*>& chunks;
  ParameterStore& store;
  const TokenSource& tokens;
  MemoryLedger& ledger;
};

/// Plays one stage's program of a step: forwards and backwards of its chunks in the schedule's
/// order, with what comes from and goes to the neighbours.
///
/// Part c PP + s of the model is chunk c of stage s. Sends never need the receiver's next action: a
/// receive is posted for every channel before the step begins and again as soon as its buffer is
/// free. plan.overlap_pipeline posts two, and lets sends run behind the following compute.
class Pipeline {
 public:
  explicit Pipeline(const PipelineParts&);

  /// Gradients of all microbatches but for their reduction. Returns the loss summed over this
  /// rank's tokens (last stage; 0 elsewhere).
  double play(int64_t step);

  /// Global number of the first sample of a microbatch of this rank.
  int64_t first_sample(int64_t step, int64_t microbatch) const;

 private:
  struct Batch {
    std::vector<int32_t> inputs, targets;
    Tokens tokens;
  };

  void make_lines();
  void begin_step(int64_t step);
  void load(int64_t step, int64_t microbatch);
  void play(const workload::Action&, bool last);
  void forward(const workload::Action&);
  void backward(const workload::Action&);
  void send(const Inbox::Line&, FlatArray);
  bool is_first(size_t chunk) const { return stage_ == 0 && chunk == 0; }
  bool is_last(size_t chunk) const {
    return stage_ + 1 == stages_ && chunk + 1 == parts_.chunks.size();
  }

  PipelineParts parts_;
  int64_t stages_, stage_, data_, count_;  // count_: numbers of a boundary
  double loss_scale_;
  workload::StageProgram program_;
  std::vector<bool> last_;  // per action: last backward of its chunk
  std::deque<Inbox> inputs_, gradients_;
  std::vector<Inbox::Line> to_next_, to_previous_;
  Outbox outbox_;
  std::vector<Batch> batches_;
};

}  // namespace triplepoint::trainer
