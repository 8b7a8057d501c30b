// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/schedule.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// Memory that is kept from one collective to the next; what is in it is of no meaning.
template <typename T>
class Workspace {
 public:
  T* at_least(int64_t count) {
    if (count > capacity_) numbers_.reset(new T[static_cast<size_t>(capacity_ = count)]);
    return numbers_.get();
  }

 private:
  std::unique_ptr<T[]> numbers_;
  int64_t capacity_ = 0;
};

/// What a collective works on.
struct Buffers {
  const float* input = nullptr;
  float* output = nullptr;
  int64_t output_count = 0;
  Reduction reduction = Reduction::sum;
  Wire wire = Wire::fp32;
};

/// What two operations after each other can share.
struct Workspaces {
  Workspace<float> scratch;
  Workspace<uint16_t> wire;
};

/// Where an operation's messages go: ranks by place in the group, and the channel of lane 0.
struct Route {
  const std::vector<int>* ranks = nullptr;
  int channel = 0;
};

/// A schedule while it is carried out.
class Operation {
 public:
  Operation(std::shared_ptr<const Schedule> schedule, const Buffers& buffers, const Route& route)
      : schedule_(std::move(schedule)), buffers_(buffers), route_(route) {}

  /// What the transport does in one go with `peer`: `start` posts it.
  Operation(std::function<Transport::Ticket()> start, std::shared_ptr<const Schedule> moves,
            const Buffers& buffers, int peer)
      : schedule_(std::move(moves)), buffers_(buffers), native_(std::move(start)), peer_(peer) {}

  /// A collective of the transport's own: `start` posts it.
  Operation(std::function<Transport::Ticket()> native, const Buffers& buffers)
      : schedule_(std::make_shared<const Schedule>(Schedule{Algorithm::native, {}, 0, 0, 0})),
        buffers_(buffers),
        native_(std::move(native)) {}

  /// Posts what can be posted, works on what has landed. True if anything has moved.
  bool advance(Transport&, Workspaces&);
  bool complete() const {
    return started_ && finished_lanes_ == lanes_.size() && native_ == nullptr;
  }
  /// The rank that is waited for; -1: none.
  int waits_for() const;
  const Schedule& schedule() const { return *schedule_; }
  Wire wire() const { return buffers_.wire; }

 private:
  struct Flight {
    Transport::Ticket ticket = 0;
    const Message* message = nullptr;
    uint16_t* wire = nullptr;
    bool landed = false;
  };
  struct LaneRun {
    size_t round = 0;
    bool posted = false, next_receives_posted = false;
    std::vector<Flight> receives, sends, next_receives;
    uint16_t* send_wire = nullptr;
    uint16_t* receive_wire[2] = {nullptr, nullptr};
  };

  void start(const Transport&, Workspaces&);
  bool advance_native(Transport&);
  bool advance_lane(const Lane&, LaneRun&, Transport&);
  void post_receives(const Lane&, size_t number, LaneRun&, std::vector<Flight>&, Transport&);
  void post_sends(const Round&, LaneRun&, Transport&);
  static bool poll(std::vector<Flight>&, Transport&, bool& moved);
  Transport::Ticket absorb(const Message&, const LocalWork&, int channel, Transport&);
  void work(const Round&, const LaneRun&);
  float* place(const Slice&) const;
  const float* source(const Slice&) const;

  std::shared_ptr<const Schedule> schedule_;
  Buffers buffers_;
  Route route_;
  float* scratch_ = nullptr;
  std::vector<LaneRun> lanes_;
  size_t finished_lanes_ = 0;
  std::function<Transport::Ticket()> native_;  // until it is done
  Transport::Ticket native_ticket_ = 0;
  int peer_ = -1;  // who it is with, where that is one
  bool started_ = false, absorbs_ = false;
};

}  // namespace triplepoint::trainer
