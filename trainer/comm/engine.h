// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/endpoint.h"
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

class GroupCommunicator;

/// Keeps all of a rank's groups moving. One lock around everything: the rank's own thread and the
/// progress thread take turns.
class Endpoint::Engine {
 public:
  Engine(std::unique_ptr<Transport>, EndpointSettings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void add(GroupCommunicator&);
  void remove(GroupCommunicator&);
  void start(const std::shared_ptr<Pending::State>&);
  bool done(Pending::State&);
  void wait(Pending::State&);
  void abort(const char* why);

  const EndpointSettings& settings() const { return settings_; }
  Transport& transport() { return *transport_; }

 private:
  bool progress();  // with the lock
  bool progress_group(GroupCommunicator&);
  bool progress_alone(GroupCommunicator&);
  bool look();  // takes the lock
  void check_silence(Pending::State&, int64_t since_ns);
  void run_in_background();

  std::unique_ptr<Transport> transport_;
  EndpointSettings settings_;
  std::mutex mutex_;
  std::vector<GroupCommunicator*> groups_;
  std::string failure_;
  std::condition_variable started_;
  int64_t active_ = 0;
  bool stop_ = false;
  std::thread background_;
};

/// What has been started and is not over.
struct Pending::State : PendingWork {
  State(Endpoint::Engine& its_engine, GroupCommunicator& its_group, spec::Collective its_collective,
        Operation its_operation)
      : engine(its_engine),
        group(its_group),
        collective(its_collective),
        operation(std::move(its_operation)) {}

  bool done() override { return engine.done(*this); }
  void wait() override { engine.wait(*this); }

  Endpoint::Engine& engine;
  GroupCommunicator& group;
  spec::Collective collective;
  Operation operation;
  Workspaces own;      // of a point-to-point message
  bool alone = false;  // point to point: waits for nothing before it
  bool counted = true;
  double payload = 0;  // bytes; -1: said by the other side
  int64_t begin_ns = 0, moved_ns = 0;
  std::atomic<bool> over{false};
};

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(Endpoint::Engine&, spec::GroupKind, std::vector<int> ranks, int index,
                    int channel);
  GroupCommunicator(const GroupCommunicator&) = delete;
  GroupCommunicator& operator=(const GroupCommunicator&) = delete;
  ~GroupCommunicator() override;

  spec::GroupKind kind() const override { return kind_; }
  const std::vector<int>& ranks() const override { return ranks_; }
  int index() const override { return index_; }
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
  void barrier() override;
  const Traffic& traffic(spec::Collective collective) const override {
    return traffic_[static_cast<size_t>(collective)];
  }

  std::string text() const;  // "tensor group [0, 1]"

 private:
  friend class Endpoint::Engine;

  struct Known {
    spec::Collective collective;
    int64_t count;
    int root;
    std::shared_ptr<const Schedule> schedule;
  };

  std::shared_ptr<const Schedule> schedule_for(spec::Collective, int64_t count, int root = 0);
  ScheduleRequest request(spec::Collective, int64_t count) const;
  Pending start(spec::Collective, const Buffers&, int64_t count, int root = 0);
  Pending start(spec::Collective, Operation, double payload);
  Pending start_uneven(spec::Collective, const Buffers&, std::span<const int64_t> counts);
  bool is_native(spec::Collective, Wire) const;
  Operation native(spec::Collective, const Buffers&, int64_t count, int root);
  bool is_swap(spec::Collective, Wire, const Schedule&) const;
  Operation swap(std::shared_ptr<const Schedule> moves, const Buffers&);
  std::vector<int> block_sizes(int64_t count) const;
  Pending message(bool sends, const Buffers&, int peer, int channel, int64_t count);
  void finish(Pending::State&);
  void count(Pending::State&);

  Endpoint::Engine& engine_;
  spec::GroupKind kind_;
  std::vector<int> ranks_, nodes_;
  int index_, channel_, native_group_ = -1;
  std::deque<Known> known_;
  std::deque<std::shared_ptr<Pending::State>> queue_, alone_;
  Workspaces workspaces_;
  NativeCollectives* natives_ = nullptr;
  std::array<Traffic, spec::collective_count> traffic_{};
};

}  // namespace triplepoint::trainer
