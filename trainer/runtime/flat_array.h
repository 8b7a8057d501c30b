// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "trainer/memory_ledger.h"

namespace triplepoint::trainer {

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
