// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "trainer/cuda/kernels/array.h"

namespace triplepoint::trainer::cuda {

/// All arrays of a device, in one block of its memory.
///
/// What it gives out are addresses of two windows that nothing lies behind: one in which a float is
/// four bytes of the block (exact), and one in which it is two (value, bf16). So the model counts
/// in floats whatever is stored, a number's place follows from its address alone, and who looks
/// into an array on the host stops there and then.
///
///   exact: block + (address - window)      value: block + (address - window) / 2
class Arena {
 public:
  /// `block`: of the device. Throws CudaError where the process may not reserve addresses.
  Arena(char* block, int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Null where there is no room.
  float* allocate(int64_t count, bool bf16);
  void release(const float* address);
  bool holds(const void* address) const;
  /// The device's array behind an address; an absent one behind null.
  Array at(const float* address) const;

  int64_t bytes() const { return bytes_; }
  int64_t used() const { return used_; }
  int64_t largest_gap() const;

 private:
  bool in_values(const char* address) const;

  char* block_;
  int64_t bytes_, used_ = 0;
  char *exact_, *values_;             // windows
  std::map<int64_t, int64_t> free_;   // offset -> bytes
  std::map<int64_t, int64_t> taken_;  // the same
};

}  // namespace triplepoint::trainer::cuda
