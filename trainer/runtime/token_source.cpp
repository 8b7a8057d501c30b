// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/token_source.h"

#include <array>

#include "triplepoint/base/random.h"

namespace triplepoint::trainer {
namespace {

class SyntheticTokens : public TokenSource {
 public:
  explicit SyntheticTokens(const TokenNeeds& needs) : needs_(needs) {}

  void read(int64_t sample, std::span<int32_t> tokens) const override {
    const RandomKey choices{needs_.seed, choice_stream + static_cast<uint64_t>(sample)};
    auto word = static_cast<int32_t>(random_bits(choices, 0) % words());
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = word;
      word = successor(word, rank_of(random_bits(choices, i + 1) % 15));
    }
  }

 private:
  static constexpr uint64_t chain_stream = 0x6d61726b6f76, choice_stream = uint64_t{1} << 40;

  uint64_t words() const { return static_cast<uint64_t>(needs_.vocabulary_size); }
  /// 8, 4, 2 and 1 of 15.
  static uint64_t rank_of(uint64_t draw) {
    return draw < 8 ? 0 : draw < 12 ? 1 : draw < 14 ? 2 : 3;
  }
  int32_t successor(int32_t word, uint64_t rank) const {
    const uint64_t at = static_cast<uint64_t>(word) * 4 + rank;
    return static_cast<int32_t>(random_bits({needs_.seed, chain_stream}, at) % words());
  }

  TokenNeeds needs_;
};

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::unique_ptr<TokenSource> make_synthetic_tokens(const TokenNeeds& needs) {
  return std::make_unique<SyntheticTokens>(needs);
}

Result<std::unique_ptr<TokenSource>> open_tokens(const std::string& data, const TokenNeeds& needs) {
  if (data.empty() || data == "synthetic") return make_synthetic_tokens(needs);
  for (const std::string_view end : {".bin", ".idx"})
    if (ends_with(data, end))
      return open_indexed_tokens(data.substr(0, data.size() - end.size()), needs);
  return open_text_tokens(data, needs);
}

}  // namespace triplepoint::trainer
