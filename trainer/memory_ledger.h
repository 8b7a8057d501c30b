// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace triplepoint::trainer {

struct FreeArray {
  void operator()(float* array) const { std::free(array); }
};
using Array = std::unique_ptr<float[], FreeArray>;

/// Unknown numbers, from the beginning of a cache line on.
inline Array new_array(int64_t count) {
  constexpr size_t line = 64;
  const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + line - 1) / line * line;
  void* array = std::aligned_alloc(line, bytes);
  if (array == nullptr) throw std::bad_alloc();
  return Array(static_cast<float*>(array));
}

/// What the ledger says of that many numbers.
constexpr int64_t bytes_of(int64_t count) {
  return count * static_cast<int64_t>(sizeof(float));
}

/// The terms of workload::StageMemory.
enum class MemoryTerm { weights, gradients, optimizer, activations, logits, buffers };
inline constexpr size_t memory_term_count = 6;

/// Bytes held per term, now and at the moment of the highest total. One per rank, used by the
/// rank's compute thread.
class MemoryLedger {
 public:
  void add(MemoryTerm term, int64_t bytes) {
    now_[static_cast<size_t>(term)] += bytes;
    total_ += bytes;
    if (total_ > peak_total_) peak_total_ = total_, at_peak_ = now_;
  }
  void release(MemoryTerm term, int64_t bytes) { add(term, -bytes); }

  int64_t now(MemoryTerm term) const { return now_[static_cast<size_t>(term)]; }
  int64_t at_peak(MemoryTerm term) const { return at_peak_[static_cast<size_t>(term)]; }

 private:
  std::array<int64_t, memory_term_count> now_{}, at_peak_{};
  int64_t total_ = 0, peak_total_ = 0;
};

/// Numbers whose bytes stand in the ledger for as long as they live; zero at first.
class FlatArray {
 public:
  FlatArray() = default;
  FlatArray(MemoryLedger& ledger, MemoryTerm term, int64_t count)
      : ledger_(&ledger), term_(term), count_(count) {
    if (count_ > 0) data_ = new_array(count_);
    std::fill_n(data_.get(), count_, 0.0F);
    ledger_->add(term_, bytes_of(count_));
  }
  ~FlatArray() { release(); }
  FlatArray(FlatArray&& other) noexcept { take(other); }
  FlatArray& operator=(FlatArray&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  FlatArray(const FlatArray&) = delete;
  FlatArray& operator=(const FlatArray&) = delete;

  std::span<float> all() { return {data_.get(), static_cast<size_t>(count_)}; }
  std::span<const float> all() const { return {data_.get(), static_cast<size_t>(count_)}; }
  bool empty() const { return count_ == 0; }

 private:
  void take(FlatArray& other) {
    ledger_ = std::exchange(other.ledger_, nullptr);
    term_ = other.term_;
    count_ = std::exchange(other.count_, 0);
    data_ = std::move(other.data_);
  }
  void release() {
    if (ledger_ != nullptr) ledger_->release(term_, bytes_of(count_));
  }

  MemoryLedger* ledger_ = nullptr;
  MemoryTerm term_ = MemoryTerm::buffers;
  int64_t count_ = 0;
  Array data_;
};

}  // namespace triplepoint::trainer
