// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator as far as it decides what is reserved (rules and source:
// caching_allocator.h).
//
// Blocks live in a vector and are linked to their neighbours within a segment; free ones are also
// in a set ordered by size, then address, which makes "smallest block that fits" a lower bound,
// O(log blocks). Invariants: two neighbours are never both free (drop() merges), and the blocks of
// a segment add up to it. Addresses are invented, rising with each segment: only their order
// enters.
#include "triplepoint/workload/caching_allocator.h"

#include <algorithm>
#include <cmath>

namespace triplepoint::workload {
namespace {

constexpr int64_t mebibyte = int64_t{1} << 20;
constexpr int64_t smallest = 512;
constexpr int64_t small_tensor = mebibyte;         // up to here tensors share small segments
constexpr int64_t middle_segment = 20 * mebibyte;  // for tensors below large_tensor
constexpr int64_t large_tensor = 10 * mebibyte;    // from here on segments are made to measure
constexpr int64_t segment_granule = 2 * mebibyte;  // in whole ones of these

int64_t round_up(int64_t bytes, int64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

int64_t whole_tensor(double bytes) {
  return round_up(static_cast<int64_t>(std::ceil(std::max(bytes, 1.0))), smallest);
}

int64_t segment_for(int64_t bytes) {
  return bytes < large_tensor ? middle_segment : round_up(bytes, segment_granule);
}

}  // namespace

CachingAllocator::Tensor CachingAllocator::take(double bytes) {
  const int64_t size = whole_tensor(bytes);
  if (size <= small_tensor) return take_small(size);
  const int64_t block = find_or_reserve(size);
  // A smaller rest stays with the tensor: it is lost to others until the tensor goes.
  if (blocks_[static_cast<size_t>(block)].bytes - size > small_tensor) cut(block, size);
  allocated_ += blocks_[static_cast<size_t>(block)].bytes;
  peak_ = std::max(peak_, allocated_);
  return block;
}

/// A small tensor is its size, negated: where it lies does not matter.
CachingAllocator::Tensor CachingAllocator::take_small(int64_t bytes) {
  small_ += bytes;
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  const int64_t segments = round_up(small_, segment_granule);
  if (segments > small_reserved_) {
    reserve(segments - small_reserved_);
    small_reserved_ = segments;
  }
  return -bytes;
}

void CachingAllocator::drop(Tensor tensor) {
  if (tensor < 0) {
    small_ += tensor;
    allocated_ += tensor;
    return;
  }
  allocated_ -= blocks_[static_cast<size_t>(tensor)].bytes;
  int64_t block = tensor;
  const int64_t before = blocks_[static_cast<size_t>(block)].before;
  if (before >= 0 && blocks_[static_cast<size_t>(before)].free) {
    set_taken(before);
    block = absorb(before, block);
  }
  const int64_t after = blocks_[static_cast<size_t>(block)].after;
  if (after >= 0 && blocks_[static_cast<size_t>(after)].free) {
    set_taken(after);
    block = absorb(block, after);
  }
  set_free(block);
}

bool CachingAllocator::is_exhausted_by(double bytes) const {
  const int64_t size = whole_tensor(bytes);
  if (size <= small_tensor || reserved_ + segment_for(size) <= limit_) return false;
  return free_.lower_bound({size, 0, 0}) == free_.end();
}

void CachingAllocator::reserve(int64_t bytes) {
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

/// All segments in which no tensor lies.
void CachingAllocator::give_back() {
  for (auto at = free_.begin(); at != free_.end();) {
    const int64_t place = std::get<2>(*at);
    const Block& block = blocks_[static_cast<size_t>(place)];
    // With a neighbour the segment holds a tensor somewhere, as free neighbours have been merged.
    if (block.before >= 0 || block.after >= 0) {
      ++at;
      continue;
    }
    reserved_ -= block.bytes;
    unused_.push_back(place);
    at = free_.erase(at);
  }
}

int64_t CachingAllocator::find_or_reserve(int64_t bytes) {
  const auto found = free_.lower_bound({bytes, 0, 0});
  if (found != free_.end()) {
    const int64_t block = std::get<2>(*found);
    set_taken(block);
    return block;
  }
  const int64_t segment = segment_for(bytes);
  if (reserved_ + segment > limit_) give_back();
  reserve(segment);
  const int64_t address = next_address_;
  next_address_ += segment;
  return new_block({.bytes = segment, .address = address});
}

int64_t CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<int64_t>(blocks_.size()) - 1;
  }
  const int64_t place = unused_.back();
  unused_.pop_back();
  blocks_[static_cast<size_t>(place)] = block;
  return place;
}

void CachingAllocator::cut(int64_t block, int64_t bytes) {
  const Block whole = blocks_[static_cast<size_t>(block)];
  const int64_t rest = new_block({.bytes = whole.bytes - bytes,
                                  .address = whole.address + bytes,
                                  .before = block,
                                  .after = whole.after});
  if (whole.after >= 0) blocks_[static_cast<size_t>(whole.after)].before = rest;
  blocks_[static_cast<size_t>(block)].bytes = bytes;
  blocks_[static_cast<size_t>(block)].after = rest;
  set_free(rest);
}

void CachingAllocator::set_free(int64_t block) {
  Block& entry = blocks_[static_cast<size_t>(block)];
  entry.free = true;
  free_.insert({entry.bytes, entry.address, block});
}

void CachingAllocator::set_taken(int64_t block) {
  Block& entry = blocks_[static_cast<size_t>(block)];
  entry.free = false;
  free_.erase({entry.bytes, entry.address, block});
}

/// Two neighbours become the first of them.
int64_t CachingAllocator::absorb(int64_t block, int64_t next) {
  Block& first = blocks_[static_cast<size_t>(block)];
  const Block& second = blocks_[static_cast<size_t>(next)];
  first.bytes += second.bytes;
  first.after = second.after;
  if (second.after >= 0) blocks_[static_cast<size_t>(second.after)].before = block;
  unused_.push_back(next);
  return block;
}

}  // namespace triplepoint::workload
