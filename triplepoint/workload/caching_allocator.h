// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
/// Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp (kSmallSize, kLargeBuffer, kMinLargeAlloc,
/// kRoundLarge; get_free_block, should_split, try_merge_blocks).
class CachingAllocator {
 public:
  using Tensor = int64_t;

  Tensor take(double bytes);
  void drop(Tensor);

  int64_t reserved() const { return reserved_; }    // of the driver; it only grows
  int64_t allocated() const { return allocated_; }  // by tensors, now
  int64_t peak() const { return peak_; }            // of allocated(), since the last forget_peak()
  void forget_peak() { peak_ = allocated_; }

 private:
  struct Block {
    int64_t bytes = 0, address = 0;
    int64_t before = -1, after = -1;  // neighbours in the segment
    bool free = false;
  };

  Tensor take_small(int64_t bytes);
  int64_t find_or_reserve(int64_t bytes);
  int64_t new_block(const Block&);
  void cut(int64_t block, int64_t bytes);
  void set_free(int64_t block);
  void set_taken(int64_t block);
  int64_t absorb(int64_t block, int64_t next);

  std::vector<Block> blocks_;
  std::vector<int64_t> unused_;                           // places in blocks_
  std::set<std::tuple<int64_t, int64_t, int64_t>> free_;  // bytes, address, place
  int64_t next_address_ = 0, reserved_ = 0, allocated_ = 0, peak_ = 0;
  int64_t small_ = 0, small_reserved_ = 0;
};

}  // namespace triplepoint::workload
