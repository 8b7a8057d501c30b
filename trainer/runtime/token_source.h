// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "triplepoint/base/random.h"
#include "triplepoint/base/result.h"

namespace triplepoint::trainer {

/// Which window of a file a sample is: all of them once per epoch, in its own order.
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

/// Sequences by their global number: what a sample is does not depend on the layout.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// length + 1 tokens: inputs, and targets one on.
  virtual void read(int64_t sample, std::span<int32_t> tokens) const = 0;
};

/// What every source is asked for.
struct TokenNeeds {
  int64_t sequence_length = 0;  // of the inputs
  int64_t vocabulary_size = 0;
  uint64_t seed = 1;
};

/// A Markov chain that can be learned: every word is followed by one of four, with odds 8:4:2:1.
std::unique_ptr<TokenSource> make_synthetic_tokens(const TokenNeeds&);

/// Bytes of any file as tokens; needs a vocabulary of 256 or more.
Result<std::unique_ptr<TokenSource>> open_text_tokens(const std::string& path, const TokenNeeds&);

inline constexpr const char* synthetic_data = "synthetic";

/// "synthetic", or a file as text.
Result<std::unique_ptr<TokenSource>> open_tokens(const std::string& data, const TokenNeeds&);

}  // namespace triplepoint::trainer
