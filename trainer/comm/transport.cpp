// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/result.h"

namespace triplepoint::trainer {

Transport::Ticket Transport::receive_reduce(int, int, size_t, const ReduceTarget&) {
  TPT_EXPECT(can_reduce_on_receive());
  return 0;
}

Transport::Ticket Transport::all_reduce_with(int, int, std::span<float>, bool) {
  TPT_EXPECT(swaps());
  return 0;
}

void Transport::rest(int looks, std::chrono::nanoseconds longest) {
  constexpr int patient_looks = 64;
  if (looks < patient_looks) return std::this_thread::yield();
  // Waiting must not cost those who compute on the same core much: a look takes some microseconds.
  const std::chrono::nanoseconds nap =
      std::chrono::microseconds(looks < 2 * patient_looks ? 20 : 100);
  std::this_thread::sleep_for(std::min(nap, longest));
}

std::atomic<int64_t>* Transport::shared_number(int) {
  return nullptr;
}

namespace {

/// Half of a message: what one side has asked for.
struct PendingMessage {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  size_t size = 0;
  bool sends = false;
  int owner = 0, box = 0;
  std::pair<int, int> key;  // from, channel
  std::atomic<bool> done{false};
};

struct MessageQueues {
  struct Queue {
    std::deque<PendingMessage*> sends, receives;
  };
  std::mutex mutex;
  std::map<std::pair<int, int>, Queue> queues;
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

struct SharedState {
  explicit SharedState(int ranks)
      : boxes(static_cast<size_t>(ranks)), signals(static_cast<size_t>(ranks)) {}
  std::vector<MessageQueues> boxes;
  std::vector<WakeSignal> signals;
  std::array<std::atomic<int64_t>, Transport::most_shared_numbers> numbers{};
  std::atomic<bool> aborted{false};
  std::mutex reason_mutex;
  std::string reason;

  void abort(const std::string& why) {
    {
      const std::lock_guard lock(reason_mutex);
      if (!aborted.load()) reason = why;
      aborted.store(true);
    }
    for (WakeSignal& signal : signals)
      signal.notify();
  }
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<SharedState> hub, int rank)
      : shared_(std::move(hub)), rank_(rank) {}
  ThreadTransport(const ThreadTransport&) = delete;
  ThreadTransport& operator=(const ThreadTransport&) = delete;
  ThreadTransport(ThreadTransport&&) = delete;
  ThreadTransport& operator=(ThreadTransport&&) = delete;
  ~ThreadTransport() override { withdraw(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_->boxes.size()); }

  Ticket send(int to, int channel, std::span<const std::byte> bytes) override {
    PendingMessage& parcel = make(to, {rank_, channel}, bytes.size());
    parcel.source = bytes.data(), parcel.sends = true;
    post(parcel);
    return newest_;
  }

  Ticket receive(int from, int channel, std::span<std::byte> bytes) override {
    PendingMessage& parcel = make(rank_, {from, channel}, bytes.size());
    parcel.target = bytes.data();
    post(parcel);
    return newest_;
  }

  bool done(Ticket ticket) override {
    if (shared_->aborted.load(std::memory_order_relaxed)) give_up();
    std::unique_ptr<PendingMessage>& parcel = parcels_[static_cast<size_t>(ticket)];
    if (!parcel->done.load(std::memory_order_acquire)) return false;
    free_.push_back(static_cast<size_t>(ticket));
    live_[static_cast<size_t>(ticket)] = false;
    return true;
  }

  void abort(const char* why) override {
    shared_->abort(why);
    withdraw();
  }

  std::atomic<int64_t>* shared_number(int place) override {
    return &shared_->numbers.at(static_cast<size_t>(place));
  }

  void rest(int looks, std::chrono::nanoseconds longest) override {
    constexpr int patient_looks = 8;
    if (looks < patient_looks) return std::this_thread::yield();
    WakeSignal& signal = shared_->signals[static_cast<size_t>(rank_)];
    std::unique_lock lock(signal.mutex);
    signal.changed.wait_for(lock, longest,
                            [&] { return signal.count.load(std::memory_order_relaxed) != seen_; });
    seen_ = signal.count.load(std::memory_order_relaxed);
  }

 private:
  PendingMessage& make(int box, std::pair<int, int> key, size_t size) {
    if (shared_->aborted.load(std::memory_order_relaxed)) give_up();
    if (free_.empty()) {
      free_.push_back(parcels_.size());
      parcels_.push_back(std::make_unique<PendingMessage>());
      live_.push_back(false);
    }
    newest_ = free_.back();
    free_.pop_back();
    live_[newest_] = true;
    PendingMessage& parcel = *parcels_[newest_];
    parcel.source = nullptr, parcel.target = nullptr, parcel.sends = false;
    parcel.size = size, parcel.owner = rank_, parcel.box = box, parcel.key = key;
    parcel.done.store(false, std::memory_order_relaxed);
    return parcel;
  }

  void post(PendingMessage& mine) {
    PendingMessage* other = nullptr;
    {
      MessageQueues& box = shared_->boxes[static_cast<size_t>(mine.box)];
      const std::lock_guard lock(box.mutex);
      MessageQueues::Queue& queue = box.queues[mine.key];
      std::deque<PendingMessage*>& wanted = mine.sends ? queue.receives : queue.sends;
      if (wanted.empty()) {
        (mine.sends ? queue.sends : queue.receives).push_back(&mine);
        return;
      }
      other = wanted.front();
      wanted.pop_front();
    }
    deliver(mine, *other);
  }

  void deliver(PendingMessage& mine, PendingMessage& other) {
    const int owner = other.owner;
    if (mine.size != other.size) {
      const auto [from, channel] = mine.key;
      shared_->abort(fmt::format(
          "rank {} and rank {} disagree about a message from rank {} on channel {} ({} and {} "
          "bytes); all members of a group must start the same collectives in the same order",
          rank_, owner, from, channel, mine.size, other.size));
    } else if (mine.size > 0) {
      std::memcpy(mine.sends ? other.target : mine.target, mine.sends ? mine.source : other.source,
                  mine.size);
    }
    mine.done.store(true, std::memory_order_release);
    other.done.store(true, std::memory_order_release);  // the owner may forget it from here on
    shared_->signals[static_cast<size_t>(owner)].notify();
  }

  /// No rank may touch the buffers of a rank that has left.
  void withdraw() {
    for (size_t i = 0; i < parcels_.size(); ++i)
      if (live_[i] && !take_back(*parcels_[i]))
        while (!parcels_[i]->done.load(std::memory_order_acquire))
          std::this_thread::yield();
  }

  bool take_back(PendingMessage& parcel) {
    MessageQueues& box = shared_->boxes[static_cast<size_t>(parcel.box)];
    const std::lock_guard lock(box.mutex);
    MessageQueues::Queue& queue = box.queues[parcel.key];
    for (std::deque<PendingMessage*>* parcels : {&queue.sends, &queue.receives}) {
      const auto found = std::find(parcels->begin(), parcels->end(), &parcel);
      if (found == parcels->end()) continue;
      parcels->erase(found);
      parcel.done.store(true, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

  [[noreturn]] void give_up() {
    withdraw();
    const std::lock_guard lock(shared_->reason_mutex);
    throw CommError(shared_->reason);
  }

  std::shared_ptr<SharedState> shared_;
  int rank_;
  std::vector<std::unique_ptr<PendingMessage>> parcels_;
  std::vector<bool> live_;
  std::vector<size_t> free_;
  size_t newest_ = 0;
  std::atomic<uint64_t> seen_{0};
};

}  // namespace

std::vector<std::unique_ptr<Transport>> thread_transports(int ranks) {
  const auto hub = std::make_shared<SharedState>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<ThreadTransport>(hub, rank));
  return transports;
}

}  // namespace triplepoint::trainer
