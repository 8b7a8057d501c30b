// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "triplepoint/base/result.h"

namespace triplepoint::trainer {

/// Memory that the ranks of one machine share: a ring buffer and a swap buffer from each
/// rank to each, and a wake signal per rank. A buffer takes pages when it is first used.
class SharedSegment {
 public:
  static constexpr uint64_t ring_bytes = 1 << 18;

  /// From one rank to another. Counts of bytes only grow.
  struct Ring {
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> read;
    alignas(64) std::array<std::byte, ring_bytes> bytes;
  };

  /// From one rank to another and back: numbers are laid out in pieces, the other one adds its own
  /// where they lie, the first takes the sums. Counts of pieces only grow.
  struct SwapBuffer {
    static constexpr size_t pieces = 4, piece_numbers = 1 << 14;
    struct Label {
      int channel;
      size_t begin, count;  // of the array
    };
    alignas(64) std::atomic<uint64_t> laid;
    alignas(64) std::atomic<uint64_t> added;
    alignas(64) std::array<Label, pieces> labels;
    alignas(64) std::array<std::array<float, piece_numbers>, pieces> numbers;
  };

  struct alignas(64) WakeSignal {
    std::atomic<uint32_t> count;
    std::atomic<uint32_t> sleepers;
    std::atomic<int32_t> process;  // 0: not there yet
  };

  struct alignas(64) Head {
    std::atomic<uint32_t> aborted;  // 1: the reason is being written; 2: it is written
    std::array<char, 1020> reason;
    std::array<std::atomic<int64_t>, 256> numbers;  // Transport::shared_number
  };

  /// Creates a segment under a unique name; the other ranks open it by that name.
  static Result<std::shared_ptr<SharedSegment>> create(int ranks);
  static Result<std::shared_ptr<SharedSegment>> open(const std::string& name, int ranks);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Removes its name; the memory is freed with the last process that maps it.
  void unlink();

  const std::string& name() const { return name_; }
  int ranks() const { return ranks_; }
  Head& head() { return *at<Head>(0); }
  WakeSignal& wake_signal(int rank) { return at<WakeSignal>(sizeof(Head))[rank]; }
  Ring& ring(int from, int to) {
    return at<Ring>(sizeof(Head) +
                    sizeof(WakeSignal) * static_cast<size_t>(ranks_))[from * ranks_ + to];
  }
  SwapBuffer& swap_buffer(int from, int to) {
    const auto n = static_cast<size_t>(ranks_);
    return at<SwapBuffer>(sizeof(Head) + sizeof(WakeSignal) * n +
                          sizeof(Ring) * n * n)[from * ranks_ + to];
  }

  void wake(int rank);
  /// Sleeps until the next wake after `seen`, less than a second.
  void sleep(int rank, uint32_t seen, std::chrono::nanoseconds longest);
  void abort(const std::string& why);
  bool aborted() { return head().aborted.load(std::memory_order_relaxed) != 0; }
  std::string reason();

 private:
  SharedSegment(std::string name, int ranks, std::byte* memory)
      : name_(std::move(name)), ranks_(ranks), memory_(memory) {}
  static size_t bytes_for(int ranks);
  static Result<std::shared_ptr<SharedSegment>> map(const std::string& name, int ranks, int flags);

  template <typename T>
  T* at(size_t offset) {
    return reinterpret_cast<T*>(memory_ + offset);
  }

  std::string name_;
  int ranks_;
  std::byte* memory_;
  bool linked_ = false;
};

}  // namespace triplepoint::trainer
