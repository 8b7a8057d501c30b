// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>

namespace triplepoint::trainer {

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

/// Numbers, from the beginning of a cache line on, whose bytes stand in the ledger for as long as
/// they live.
class Buffer {
 public:
  Buffer() = default;
  /// Unknown numbers. `term`: nothing for what lives within one operation, which is not counted.
  Buffer(MemoryLedger& ledger, std::optional<MemoryTerm> term, int64_t count)
      : data_(new_array(count), Release{&ledger, term, count}) {
    if (term) ledger.add(*term, bytes_of(count));
  }
  static Buffer zeros(MemoryLedger& ledger, MemoryTerm term, int64_t count) {
    Buffer made(ledger, term, count);
    std::fill_n(made.data(), count, 0.0F);
    return made;
  }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  int64_t count() const { return data_ == nullptr ? 0 : data_.get_deleter().count; }
  bool empty() const { return count() == 0; }
  std::span<float> all() { return {data(), static_cast<size_t>(count())}; }
  std::span<const float> all() const { return {data(), static_cast<size_t>(count())}; }
  void release() { data_.reset(); }

 private:
  struct Release {
    MemoryLedger* ledger;
    std::optional<MemoryTerm> term;
    int64_t count;
    void operator()(float* array) const {
      std::free(array);
      if (term) ledger->release(*term, bytes_of(count));
    }
  };
  static float* new_array(int64_t count) {
    constexpr size_t line = 64;
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) / line + 1) * line;
    void* array = std::aligned_alloc(line, bytes);
    if (array == nullptr) throw std::bad_alloc();
    return static_cast<float*>(array);
  }

  std::unique_ptr<float[], Release> data_;
};

}  // namespace triplepoint::trainer
