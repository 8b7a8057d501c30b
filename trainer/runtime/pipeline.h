// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/schedule.h"

#include "trainer/comm/communicator.h"
#include "trainer/memory_ledger.h"
#include "trainer/model/chunk.h"
#include "trainer/runtime/parameter_store.h"
#include "trainer/runtime/token_source.h"

namespace triplepoint::trainer {

/// Activations (or their gradients) that come from one neighbour to one chunk, microbatch after
/// microbatch, on their own channel.
///
/// `depth` receives are posted before they are asked for, so that no send of a neighbour waits for
/// more than a step of this rank's program.
class Inbox {
 public:
  struct Line {
    Communicator* group = nullptr;
    int from = 0, channel = 0;
  };
  Inbox() = default;
  Inbox(const Line& line, int64_t depth) : line_(line), depth_(depth) {}

  void begin_step(int64_t messages, int64_t count, MemoryLedger& ledger) {
    left_ = messages;
    while (static_cast<int64_t>(posted_.size()) < depth_ && left_ > 0)
      post(Buffer(ledger, MemoryTerm::buffers, count));
  }
  /// Waits for the next one.
  std::span<const float> take() {
    posted_.front().pending.wait();
    return posted_.front().buffer.all();
  }
  /// Done with what `take` gave: its place is free for a further one.
  void give_back() {
    Buffer buffer = std::move(posted_.front().buffer);
    posted_.pop_front();
    if (left_ > 0) post(std::move(buffer));
  }

 private:
  struct PostedReceive {
    Buffer buffer;
    Pending pending;
  };
  void post(Buffer buffer) {
    posted_.push_back({std::move(buffer), Pending()});
    PostedReceive& last = posted_.back();
    last.pending = line_.group->receive(last.buffer.all(), line_.from, line_.channel);
    --left_;
  }

  Line line_;
  int64_t depth_ = 1, left_ = 0;
  std::deque<PostedReceive> posted_;
};

/// What is on its way to the neighbours: buffers live until they have left.
class Outbox {
 public:
  void send(const Inbox::Line& line, Buffer buffer) {
    while (!sent_.empty() && sent_.front().pending.done())
      sent_.pop_front();
    sent_.push_back({std::move(buffer), Pending()});
    Sent& last = sent_.back();
    last.pending = line.group->send(last.buffer.all(), line.from, line.channel);
  }
  void wait() {
    for (; !sent_.empty(); sent_.pop_front())
      sent_.front().pending.wait();
  }

 private:
  struct Sent {
    Buffer buffer;
    Pending pending;
  };
  std::deque<Sent> sent_;
};

/// What a pipeline is made of; all of it outlives the pipeline.
struct PipelineParts {
  const spec::Job& job;
  const RankGroups& groups;
  const std::vector<Chunk*>& chunks;
  ParameterStore& store;
  const TokenSource& tokens;
  MemoryLedger& ledger;
};

/// Runs one stage's program of a step: forwards and backwards of its chunks in the schedule's
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
  double run(int64_t step);

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
  void run(const workload::Action&, bool last);
  void forward(const workload::Action&);
  void backward(const workload::Action&);
  void send(const Inbox::Line&, Buffer);
  bool is_first(size_t chunk) const { return stage_ == 0 && chunk == 0; }
  bool is_last(size_t chunk) const {
    return stage_ + 1 == stages_ && chunk + 1 == parts_.chunks.size();
  }

  PipelineParts parts_;
  int64_t stages_, stage_;
  int64_t data_, count_;  // count_: numbers of a boundary
  double loss_scale_;
  workload::StageProgram program_;
  std::vector<bool> last_;  // per action: last backward of its chunk
  std::deque<Inbox> inputs_, gradients_;
  std::vector<Inbox::Line> to_next_, to_previous_;
  Outbox outbox_;
  std::vector<Batch> batches_;
};

}  // namespace triplepoint::trainer
