// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/base/random.h"

namespace triplepoint::trainer {

/// Which window of a file a sample is: all of them once per epoch, in an order of its own.
///
///   window = (a k + b) mod n,  k = sample mod n;  a: prime to n, a and b by seed and epoch
class Windows {
 public:
  Windows(int64_t count, uint64_t seed) : count_(count), seed_(seed) {}

  int64_t count() const { return count_; }
  int64_t of_sample(int64_t sample) const {
    const auto epoch = static_cast<uint64_t>(sample / count_);
    const auto n = static_cast<uint64_t>(count_);
    const auto k = static_cast<uint64_t>(sample % count_);
    uint64_t step = random_bits({seed_, 0x77696e646f77}, 2 * epoch) % n;
    while (common_divisor(step, n) != 1)
      step = (step + 1) % n;
    const uint64_t first = random_bits({seed_, 0x77696e646f77}, 2 * epoch + 1) % n;
    return static_cast<int64_t>((static_cast<__uint128_t>(step) * k + first) % n);
  }

 private:
  static uint64_t common_divisor(uint64_t a, uint64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
  }

  int64_t count_;
  uint64_t seed_;
};

}  // namespace triplepoint::trainer
