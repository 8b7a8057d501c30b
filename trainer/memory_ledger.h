// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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
  int64_t peak_total() const { return peak_total_; }
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

}  // namespace triplepoint::trainer
