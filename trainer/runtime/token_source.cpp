// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/token_source.h"

#include <utility>

#include "triplepoint/base/files.h"

namespace triplepoint::trainer {
namespace {

class TextTokens : public TokenSource {
 public:
  TextTokens(std::string text, const TokenNeeds& needs)
      : text_(std::move(text)),
        length_(needs.sequence_length),
        windows_((static_cast<int64_t>(text_.size()) - 1) / length_, needs.seed) {}

  void read(int64_t sample, std::span<int32_t> tokens) const override {
    const auto first = static_cast<size_t>(windows_.of_sample(sample) * length_);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<unsigned char>(text_[first + i]);
  }

 private:
  std::string text_;
  int64_t length_;
  Windows windows_;
};

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

}  // namespace

Result<std::unique_ptr<TokenSource>> open_text_tokens(const std::string& path,
                                                      const TokenNeeds& needs) {
  if (needs.vocabulary_size < 256)
    return error(
        "{}: a text has 256 different bytes and the model's vocabulary only "
        "{} (a token is a byte); try vocabulary_size 256 or more",
        path, needs.vocabulary_size);
  std::string text = TPT_TRY(read_file(path));
  if (static_cast<int64_t>(text.size()) <= needs.sequence_length)
    return error(
        "{}: {} bytes are less than one sequence (of {} tokens and the one "
        "after); use a longer file or a shorter sequence_length",
        path, text.size(), needs.sequence_length);
  return std::make_unique<TextTokens>(std::move(text), needs);
}

std::unique_ptr<TokenSource> make_synthetic_tokens(const TokenNeeds& needs) {
  return std::make_unique<SyntheticTokens>(needs);
}

Result<std::unique_ptr<TokenSource>> open_tokens(const std::string& data, const TokenNeeds& needs) {
  if (data == synthetic_data) return make_synthetic_tokens(needs);
  return open_text_tokens(data, needs);
}

}  // namespace triplepoint::trainer
