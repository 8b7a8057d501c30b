// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

namespace triplepoint::workload {

/// PyTorch's caching allocator, as far as it decides what is taken from the driver.
///
/// Sizes are rounded up to 512 bytes. A tensor above 1 MiB gets the smallest free block that holds
/// it, and the rest of that block stays free if it is above 1 MiB; where there is none, a new
/// segment: 20 MiB for sizes below 10 MiB, else the size in whole 2 MiB. Free neighbours of one
/// segment become one block; segments are never given back, so what two free blocks hold together
/// serves no tensor of their sum. That is fragmentation. Smaller tensors share small segments; they
/// are counted by their sum.
///
/// Where the driver has no more to give, all segments without a tensor go back to it, and the
/// allocator asks again. What is too much then is taken all the same: the job does not fit.
///
/// Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp (kSmallSize, kLargeBuffer, kMinLargeAlloc,
/// kRoundLarge; get_free_block, should_split, try_merge_blocks, release_cached_blocks).
class CachingAllocator {
 public:
  using Tensor = int64_t;

  CachingAllocator() = default;
  explicit CachingAllocator(int64_t limit) : limit_(limit) {}  // of what the driver gives

  Tensor take(double bytes);
  void drop(Tensor);

  /// Will taking so much find neither a free block nor enough at the driver?
  bool is_exhausted_by(double bytes) const;

  int64_t reserved() const { return reserved_; }    // of the driver
  int64_t allocated() const { return allocated_; }  // by tensors, now
  int64_t peak() const { return peak_; }            // of allocated(), since the last forget_peak()
  int64_t peak_reserved() const { return peak_reserved_; }
  void forget_peak() { peak_ = allocated_, peak_reserved_ = reserved_; }

 private:
  struct Block {
    int64_t bytes = 0, address = 0;
    int64_t before = -1, after = -1;  // neighbours in the segment
    bool free = false;
  };

  Tensor take_small(int64_t bytes);
  int64_t find_or_reserve(int64_t bytes);
  void give_back();
  void reserve(int64_t bytes);
  int64_t new_block(const Block&);
  void cut(int64_t block, int64_t bytes);
  void set_free(int64_t block);
  void set_taken(int64_t block);
  int64_t absorb(int64_t block, int64_t next);

  std::vector<Block> blocks_;
  std::vector<int64_t> unused_;                           // places in blocks_
  std::set<std::tuple<int64_t, int64_t, int64_t>> free_;  // bytes, address, place
  int64_t limit_ = std::numeric_limits<int64_t>::max();
  int64_t next_address_ = 0, reserved_ = 0, peak_reserved_ = 0, allocated_ = 0, peak_ = 0;
  int64_t small_ = 0, small_reserved_ = 0;
};

}  // namespace triplepoint::workload
