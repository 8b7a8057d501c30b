// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/runtime/flat_array.h"

namespace triplepoint::trainer {

/// Activations (or their gradients) that come from one neighbour to one chunk, microbatch after
/// microbatch, on a channel of their own.
///
/// `depth` receives are posted before they are asked for, so that no send of a neighbour waits for
/// more than a step of this rank's program.
class Inbox {
 public:
  struct Line {
    Communicator* group = nullptr;
    int from = 0, channel = 0;
    Wire wire = Wire::fp32;
  };
  Inbox() = default;
  Inbox(const Line& line, int64_t depth) : line_(line), depth_(depth) {}

  void begin_step(int64_t messages, int64_t count, MemoryLedger& ledger) {
    left_ = messages;
    while (static_cast<int64_t>(posted_.size()) < depth_ && left_ > 0)
      post(FlatArray(ledger, MemoryTerm::buffers, count, Storage::value));
  }
  /// Waits for the next one.
  std::span<const float> take() {
    posted_.front().pending.wait();
    return posted_.front().buffer.all();
  }
  /// Done with what `take` gave: its place is free for a further one.
  void give_back() {
    FlatArray buffer = std::move(posted_.front().buffer);
    posted_.pop_front();
    if (left_ > 0) post(std::move(buffer));
  }

 private:
  struct Posted {
    FlatArray buffer;
    Pending pending;
  };
  void post(FlatArray buffer) {
    posted_.push_back({std::move(buffer), Pending()});
    Posted& last = posted_.back();
    last.pending = line_.group->receive(last.buffer.all(), line_.from, line_.channel, line_.wire);
    --left_;
  }

  Line line_;
  int64_t depth_ = 1, left_ = 0;
  std::deque<Posted> posted_;
};

/// What is on its way to the neighbours: buffers live until they have left.
class Outbox {
 public:
  void send(const Inbox::Line& line, FlatArray buffer) {
    while (!sent_.empty() && sent_.front().pending.done())
      sent_.pop_front();
    sent_.push_back({std::move(buffer), Pending()});
    Sent& last = sent_.back();
    last.pending = line.group->send(last.buffer.all(), line.from, line.channel, line.wire);
  }
  void wait() {
    for (; !sent_.empty(); sent_.pop_front())
      sent_.front().pending.wait();
  }

 private:
  struct Sent {
    FlatArray buffer;
    Pending pending;
  };
  std::deque<Sent> sent_;
};

}  // namespace triplepoint::trainer
