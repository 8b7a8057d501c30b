// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/spec/op.h"

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;

/// What the members of a group have to agree about.
struct Agreement {
  Collective collective = Collective::all_reduce;
  Reduction reduction = Reduction::sum;
  int64_t count = 0;  // of the whole array
  friend bool operator==(const Agreement&, const Agreement&) = default;
};

/// What one member brings.
struct Part {
  const float* in = nullptr;
  float* out = nullptr;
};

/// A collective or message from when its first member comes. Its blocks are independent of each
/// other: each member that has time takes the next one.
class Meeting {
 public:
  Meeting(const Agreement& agreement, std::vector<int> ranks)
      : agreement_(agreement), ranks_(std::move(ranks)), parts_(ranks_.size()) {}

  const Agreement& agreement() const { return agreement_; }
  const std::vector<int>& ranks() const { return ranks_; }
  /// True for the last one.
  bool join(size_t member, Part part) {
    parts_[member] = part;
    return ++joined_ == ranks_.size();
  }
  void begin() { all_here_.store(true, std::memory_order_release); }
  bool all_here() const { return all_here_.load(std::memory_order_acquire); }
  bool finished() const { return finished_.load(std::memory_order_acquire) == ranks_.size(); }
  /// Works as long as there are blocks; true if the last one was among them.
  bool work() {
    bool last = false;
    for (size_t block = claimed_++; block < ranks_.size(); block = claimed_++) {
      move(block);
      last = finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_.size();
    }
    return last;
  }
  /// A member that has not come; with the lock of the world.
  int missing() const {
    for (size_t member = 0; member < parts_.size(); ++member)
      if (parts_[member].in == nullptr && parts_[member].out == nullptr) return ranks_[member];
    return -1;
  }

 private:
  void move(size_t block) {
    const auto p = static_cast<int64_t>(ranks_.size()), i = static_cast<int64_t>(block);
    const auto [first, count] = block_of(agreement_.count, i, p);
    switch (agreement_.collective) {
      case Collective::all_reduce:
        return reduce(first, count, [&](const float* sums, int64_t at, int64_t piece) {
          for (const Part& part : parts_)
            copy(part.out + at, sums, piece);
        });
      case Collective::reduce_scatter:
        return reduce(first, count,
                      [&, first = first](const float* sums, int64_t at, int64_t piece) {
                        copy(parts_[block].out + at - first, sums, piece);
                      });
      case Collective::all_gather:
        for (const Part& part : parts_)
          copy(part.out + first, parts_[block].in, count);
        return;
      case Collective::all_to_all:
      case Collective::broadcast:  // of no part of a training
        return;
      case Collective::send_recv:
        if (block == 1) copy(parts_[1].out, parts_[0].in, agreement_.count);
    }
  }

  static void copy(float* to, const float* from, int64_t count) {
    if (to != from && count > 0) std::memcpy(to, from, as_size(count) * sizeof(float));
  }

  /// Calls take(sums, begin, count) piece by piece, so that a piece stays in the caches.
  template <class Take>
  void reduce(int64_t begin, int64_t count, const Take& take) const {
    constexpr int64_t piece = 2048;
    alignas(64) std::array<float, as_size(piece)> sums;
    for (const int64_t end = begin + count; begin < end; begin += piece) {
      const int64_t here = std::min(piece, end - begin);
      copy(sums.data(), parts_[0].in + begin, here);
      for (size_t member = 1; member < parts_.size(); ++member)
        combine(parts_[member].in + begin, sums.data(), here, agreement_.reduction);
      take(sums.data(), begin, here);
    }
  }

  Agreement agreement_;
  std::vector<int> ranks_;
  std::vector<Part> parts_;
  size_t joined_ = 0;
  std::atomic<bool> all_here_{false};
  std::atomic<size_t> claimed_{0}, finished_{0};
};

struct WakeSignal {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint64_t> count{0};

  void notify() {
    {
      const std::lock_guard lock(mutex);
      count.fetch_add(1, std::memory_order_relaxed);
    }
    changed.notify_all();
  }
};

/// Group and its first rank; of a message sender, receiver and channel; how many of these before.
using MeetingKey = std::array<int64_t, 6>;

struct World {
  explicit World(int ranks) : signals(as_size(ranks)) {}

  std::vector<WakeSignal> signals;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::map<MeetingKey, std::shared_ptr<Meeting>> meetings;  // to which some have yet to come
  std::string reason;

  void abort(const std::string& why) {
    {
      const std::lock_guard lock(mutex);
      if (!aborted.load()) reason = why;
      aborted.store(true);
    }
    for (WakeSignal& signal : signals)
      signal.notify();
  }
  void check_aborted() {
    if (!aborted.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex);
    throw CommError(reason);
  }
  void work(Meeting& meeting) {
    if (!meeting.work()) return;
    for (const int rank : meeting.ranks())
      signals[as_size(rank)].notify();
  }
};

class ThreadTransfer final : public Transfer {
 public:
  ThreadTransfer(std::shared_ptr<World> world, std::shared_ptr<Meeting> meeting, MeetingKey key)
      : world_(std::move(world)), meeting_(std::move(meeting)), key_(key) {}
  ThreadTransfer(const ThreadTransfer&) = delete;
  ThreadTransfer& operator=(const ThreadTransfer&) = delete;
  /// No rank may touch the arrays of a rank that has left.
  ~ThreadTransfer() override {
    {
      const std::lock_guard lock(world_->mutex);
      if (!meeting_->all_here()) world_->meetings.erase(key_);
    }
    while (meeting_->all_here() && !meeting_->finished()) {
      world_->work(*meeting_);
      std::this_thread::yield();
    }
  }

  bool done() override {
    if (meeting_->finished()) return true;
    world_->check_aborted();
    if (meeting_->all_here()) world_->work(*meeting_);
    return meeting_->finished();
  }
  int waits_for() const override {
    const std::lock_guard lock(world_->mutex);
    return meeting_->missing();
  }

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<Meeting> meeting_;
  MeetingKey key_;
};

class ThreadGroup final : public GroupTransport {
 public:
  ThreadGroup(std::shared_ptr<World> world, const std::vector<int>& ranks, int number, int rank)
      : world_(std::move(world)), ranks_(ranks), number_(number) {
    index_ = as_size(std::ranges::find(ranks, rank) - ranks.begin());
  }

  Started all_reduce(float* data, int64_t count, Reduction reduction) override {
    return meet({Collective::all_reduce, reduction, count}, part(data, data));
  }
  Started all_gather(const float* mine, float* whole, int64_t count) override {
    return meet({Collective::all_gather, Reduction::sum, count}, part(mine, whole));
  }
  Started reduce_scatter(const float* whole, float* mine, int64_t count,
                         Reduction reduction) override {
    return meet({Collective::reduce_scatter, reduction, count}, part(whole, mine));
  }
  Started send(const float* data, int64_t count, int to, int channel) override {
    return message(part(data, nullptr), count, {member(index_), member(to)}, channel);
  }
  Started receive(float* data, int64_t count, int from, int channel) override {
    return message(part(nullptr, data), count, {member(from), member(index_)}, channel);
  }

 private:
  /// Pointers are there even for nothing, so that a part that has come is seen.
  static Part part(const float* in, float* out) {
    static float nothing;
    if (in == nullptr && out == nullptr) return {&nothing, &nothing};
    return {in, out};
  }
  template <class Place>
  int member(Place place) const {
    return ranks_[as_size(place)];
  }

  Started meet(const Agreement& agreement, Part mine) {
    const MeetingKey key{number_, ranks_.front(), -1, -1, -1, turns_++};
    return join(key, agreement, ranks_, index_, mine);
  }
  Started message(Part mine, int64_t count, std::vector<int> ends, int channel) {
    const bool receives = ends[1] == member(index_);
    int64_t& turn = message_turns_[{ends[0], ends[1], channel}];
    const MeetingKey key{number_, ranks_.front(), ends[0], ends[1], channel, turn++};
    return join(key, {Collective::send_recv, Reduction::sum, count}, ends, receives ? 1 : 0, mine);
  }

  Started join(const MeetingKey& key, const Agreement& agreement, const std::vector<int>& ranks,
               size_t place, Part mine) {
    world_->check_aborted();
    std::shared_ptr<Meeting> meeting;
    bool complete = false, agreed = true;
    {
      const std::lock_guard lock(world_->mutex);
      std::shared_ptr<Meeting>& at = world_->meetings[key];
      if (at == nullptr) at = std::make_shared<Meeting>(agreement, ranks);
      meeting = at;
      agreed = meeting->agreement() == agreement;
      if (agreed && meeting->join(place, mine)) {
        complete = true;
        world_->meetings.erase(key);
        meeting->begin();
      }
    }
    if (!agreed) disagree(*meeting, agreement);
    if (complete) world_->work(*meeting);
    return std::make_unique<ThreadTransfer>(world_, std::move(meeting), key);
  }

  [[noreturn]] void disagree(const Meeting& meeting, const Agreement& mine) {
    const Agreement& theirs = meeting.agreement();
    const std::string why = fmt::format(
        "rank {} starts {} of {} numbers where others of its group started {} of {}; all members "
        "of a group must start the same collectives in the same order",
        member(index_), spec::name_of(mine.collective), mine.count,
        spec::name_of(theirs.collective), theirs.count);
    world_->abort(why);
    throw CommError(why);
  }

  std::shared_ptr<World> world_;
  std::vector<int> ranks_;
  int number_;
  size_t index_ = 0;
  int64_t turns_ = 0;
  std::map<std::array<int, 3>, int64_t> message_turns_;  // by sender, receiver, channel
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->signals.size()); }
  std::unique_ptr<GroupTransport> group(const std::vector<int>& ranks, int number) override {
    return std::make_unique<ThreadGroup>(world_, ranks, number, rank_);
  }
  void abort(const char* why) override { world_->abort(why); }
  /// Until something is over that this rank takes part in.
  void rest(int looks) override {
    constexpr int patient_looks = 8;
    if (looks < patient_looks) return std::this_thread::yield();
    WakeSignal& signal = world_->signals[as_size(rank_)];
    std::unique_lock lock(signal.mutex);
    signal.changed.wait_for(lock, std::chrono::milliseconds(1),
                            [&] { return signal.count.load(std::memory_order_relaxed) != seen_; });
    seen_ = signal.count.load(std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<World> world_;
  int rank_;
  std::atomic<uint64_t> seen_{0};
};

}  // namespace

std::vector<std::unique_ptr<Transport>> thread_transports(int ranks) {
  const auto world = std::make_shared<World>(ranks);
  return numbered<std::unique_ptr<Transport>>(
      ranks, [&](int rank) { return std::make_unique<ThreadTransport>(world, rank); });
}

}  // namespace triplepoint::trainer
