// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/memory_ledger.h"

namespace triplepoint::trainer {

/// Arrays that come and go with every microbatch. Given back they wait for the next one of their
/// size, so that nothing is allocated after the first step.
class BufferPool {
 public:
  explicit BufferPool(MemoryLedger& ledger) : ledger_(ledger) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// `term`: what the ledger is told; absent for what lives within one operation.
  float* take(int64_t count, std::optional<MemoryTerm> term, Storage = Storage::value);
  void give(float* array, int64_t count, std::optional<MemoryTerm> term, Storage = Storage::value);

  int64_t workspace_peak() const { return workspace_peak_; }  // bytes without a term

 private:
  struct Idle {
    int64_t capacity;
    Storage storage;
    std::vector<float*> arrays;
  };
  std::vector<float*>& idle_of(int64_t capacity, Storage);
  void tell(int64_t bytes, std::optional<MemoryTerm> term);

  MemoryLedger& ledger_;
  std::vector<Idle> idle_;
  int64_t workspace_ = 0, workspace_peak_ = 0;
};

/// An array of a pool; empty unless made by one.
class Buffer {
 public:
  Buffer() = default;
  Buffer(BufferPool& pool, int64_t count, std::optional<MemoryTerm> term,
         Storage storage = Storage::value)
      : pool_(&pool),
        term_(term),
        storage_(storage),
        count_(count),
        data_(pool.take(count, term, storage)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  float* data() { return data_; }
  const float* data() const { return data_; }
  int64_t count() const { return count_; }
  bool empty() const { return data_ == nullptr; }
  void release() {
    if (data_ != nullptr) pool_->give(data_, count_, term_, storage_);
    data_ = nullptr;
    count_ = 0;
  }

 private:
  void swap(Buffer& other) {
    std::swap(pool_, other.pool_);
    std::swap(term_, other.term_);
    std::swap(storage_, other.storage_);
    std::swap(count_, other.count_);
    std::swap(data_, other.data_);
  }

  BufferPool* pool_ = nullptr;
  std::optional<MemoryTerm> term_;
  Storage storage_ = Storage::value;
  int64_t count_ = 0;
  float* data_ = nullptr;
};

}  // namespace triplepoint::trainer
