// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "trainer/memory_ledger.h"

namespace triplepoint::trainer {

/// Numbers whose bytes stand in the ledger for as long as they live; zero at first.
class FlatArray {
 public:
  FlatArray() = default;
  FlatArray(MemoryLedger& ledger, MemoryTerm term, int64_t count)
      : ledger_(&ledger), term_(term), numbers_(static_cast<size_t>(count)) {
    ledger_->add(term_, bytes());
  }
  ~FlatArray() { release(); }
  FlatArray(FlatArray&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)),
        term_(other.term_),
        numbers_(std::move(other.numbers_)) {}
  FlatArray& operator=(FlatArray&& other) noexcept {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    term_ = other.term_;
    numbers_ = std::move(other.numbers_);
    return *this;
  }
  FlatArray(const FlatArray&) = delete;
  FlatArray& operator=(const FlatArray&) = delete;

  std::span<float> all() { return numbers_; }
  std::span<const float> all() const { return numbers_; }
  bool empty() const { return numbers_.empty(); }

 private:
  int64_t bytes() const { return static_cast<int64_t>(numbers_.size() * sizeof(float)); }
  void release() {
    if (ledger_ != nullptr) ledger_->release(term_, bytes());
    ledger_ = nullptr;
    numbers_.clear();
  }

  MemoryLedger* ledger_ = nullptr;
  MemoryTerm term_ = MemoryTerm::buffers;
  std::vector<float> numbers_;
};

}  // namespace triplepoint::trainer
