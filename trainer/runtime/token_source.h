// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "triplepoint/base/result.h"

namespace triplepoint::trainer {

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

/// Megatron-LM's indexed dataset: `prefix`.bin and `prefix`.idx, documents one after the other.
Result<std::unique_ptr<TokenSource>> open_indexed_tokens(const std::string& prefix,
                                                         const TokenNeeds&);

/// "synthetic", FILE.bin or FILE.idx (Megatron-LM), or any other file as text.
Result<std::unique_ptr<TokenSource>> open_tokens(const std::string& data, const TokenNeeds&);

}  // namespace triplepoint::trainer
