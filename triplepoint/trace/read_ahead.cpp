// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "triplepoint/trace/unpack.h"

namespace triplepoint::trace {

namespace {

struct Block {
  std::unique_ptr<char[]> bytes;
  size_t size = 0, used = 0;
};

/// A ring of blocks: a thread fills them in order, the reader empties them in order.
class ReadAhead : public Source {
 public:
  explicit ReadAhead(std::unique_ptr<Source> source) : source_(std::move(source)) {
    for (Block& block : blocks_)
      block.bytes = std::make_unique_for_overwrite<char[]>(block_size);
    thread_ = std::jthread([this](const std::stop_token& stop) { fill_blocks(stop); });
  }
  ~ReadAhead() override {
    thread_.request_stop();
    changed_.notify_all();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ReadAhead(ReadAhead&&) = delete;
  ReadAhead& operator=(ReadAhead&&) = delete;

  Result<size_t> read(std::span<char> room) override {
    Block* block = next_full();
    if (block == nullptr) {
      if (failure_) return tl::unexpected(*failure_);
      return 0;
    }
    const size_t size = std::min(room.size(), block->size - block->used);
    std::memcpy(room.data(), block->bytes.get() + block->used, size);
    block->used += size;
    if (block->used == block->size) advance(emptied_);
    return size;
  }

 private:
  static constexpr size_t block_size = 1 << 20;

  void advance(uint64_t& counter) {
    {
      const std::lock_guard lock(mutex_);
      ++counter;
    }
    changed_.notify_all();
  }

  /// The oldest block with bytes in it; null at the end.
  Block* next_full() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return emptied_ < filled_ || ended_; });
    return emptied_ < filled_ ? &blocks_[emptied_ % blocks_.size()] : nullptr;
  }

  void fill_blocks(const std::stop_token& stop) {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock,
                      [&] { return filled_ - emptied_ < blocks_.size() || stop.stop_requested(); });
      }
      if (stop.stop_requested() || !fill(blocks_[filled_ % blocks_.size()])) break;
      advance(filled_);
    }
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  /// False at the end. What came before an error is handed out before the error is.
  bool fill(Block& block) {
    block.size = block.used = 0;
    while (block.size < block_size && !failure_) {
      auto got = source_->read({block.bytes.get() + block.size, block_size - block.size});
      if (!got) {
        failure_ = std::move(got).error();
        break;
      }
      if (*got == 0) break;
      block.size += *got;
    }
    return block.size > 0;
  }

  std::unique_ptr<Source> source_;
  std::array<Block, 4> blocks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t filled_ = 0, emptied_ = 0;  // blocks so far
  bool ended_ = false;
  std::optional<Error> failure_;  // written by the thread before ended_ is
  std::jthread thread_;           // last: joins before the rest goes
};

}  // namespace

std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source) {
  return std::make_unique<ReadAhead>(std::move(source));
}

}  // namespace triplepoint::trace
