// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trainer/comm/endpoint.h"
#include "trainer/comm/operation.h"

namespace triplepoint::trainer {

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
