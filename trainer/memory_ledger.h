// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "trainer/math/math.h"

namespace triplepoint::trainer {

/// The terms of workload::StageMemory.
enum class MemoryTerm { weights, gradients, optimizer, activations, logits, buffers };
inline constexpr size_t memory_term_count = 6;

/// Bytes held per term, now and at the moment of the highest total. One per rank, used by the
/// rank's compute thread.
class MemoryLedger {
 public:
  explicit MemoryLedger(Arrays& arrays = plain_arrays()) : arrays_(&arrays) {}

  /// Where the arrays come from whose bytes stand here.
  Arrays& arrays() const { return *arrays_; }
  void add(MemoryTerm term, int64_t bytes) {
    now_[static_cast<size_t>(term)] += bytes;
    total_ += bytes;
    if (total_ > peak_total_) peak_total_ = total_, at_peak_ = now_;
  }
  void release(MemoryTerm term, int64_t bytes) { add(term, -bytes); }

  int64_t now(MemoryTerm term) const { return now_[static_cast<size_t>(term)]; }
  int64_t at_peak(MemoryTerm term) const { return at_peak_[static_cast<size_t>(term)]; }

 private:
  static Arrays& plain_arrays() {
    static Arrays plain;
    return plain;
  }

  Arrays* arrays_;
  std::array<int64_t, memory_term_count> now_{}, at_peak_{};
  int64_t total_ = 0, peak_total_ = 0;
};

/// Numbers whose bytes stand in the ledger for as long as they live, in arrays of the ledger's
/// kind; zero at first.
class FlatArray {
 public:
  FlatArray() = default;
  FlatArray(MemoryLedger& ledger, MemoryTerm term, int64_t count, Storage storage = Storage::exact)
      : ledger_(&ledger), term_(term), storage_(storage), count_(count) {
    if (count_ > 0) data_ = ledger_->arrays().allocate(count_, storage);
    if (count_ > 0) ledger_->arrays().zero(count_, data_);
    ledger_->add(term_, bytes());
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

  std::span<float> all() { return {data_, static_cast<size_t>(count_)}; }
  std::span<const float> all() const { return {data_, static_cast<size_t>(count_)}; }
  bool empty() const { return count_ == 0; }

 private:
  int64_t bytes() const { return count_ * ledger_->arrays().bytes_each(storage_); }
  void take(FlatArray& other) {
    ledger_ = std::exchange(other.ledger_, nullptr);
    term_ = other.term_;
    storage_ = other.storage_;
    count_ = std::exchange(other.count_, 0);
    data_ = std::exchange(other.data_, nullptr);
  }
  void release() {
    if (ledger_ == nullptr) return;  // then there is nothing at all
    ledger_->release(term_, bytes());
    if (data_ != nullptr) ledger_->arrays().release(data_);
    ledger_ = nullptr;
    data_ = nullptr;
    count_ = 0;
  }

  MemoryLedger* ledger_ = nullptr;
  MemoryTerm term_ = MemoryTerm::buffers;
  Storage storage_ = Storage::exact;
  int64_t count_ = 0;
  float* data_ = nullptr;
};

}  // namespace triplepoint::trainer
