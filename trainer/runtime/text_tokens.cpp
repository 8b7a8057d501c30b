// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include "trainer/runtime/mapped_file.h"
#include "trainer/runtime/token_source.h"
#include "trainer/runtime/windows.h"

namespace triplepoint::trainer {
namespace {

class TextTokens : public TokenSource {
 public:
  TextTokens(MappedFile file, const TokenNeeds& needs)
      : file_(std::move(file)),
        length_(needs.sequence_length),
        windows_((static_cast<int64_t>(file_.bytes().size()) - 1) / length_, needs.seed) {}

  void read(int64_t sample, std::span<int32_t> tokens) const override {
    const auto first = static_cast<size_t>(windows_.of_sample(sample) * length_);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = std::to_integer<int32_t>(file_.bytes()[first + i]);
  }

 private:
  MappedFile file_;
  int64_t length_;
  Windows windows_;
};

}  // namespace

Result<std::unique_ptr<TokenSource>> open_text_tokens(const std::string& path,
                                                      const TokenNeeds& needs) {
  if (needs.vocabulary_size < 256)
    return error(
        fmt::format("{}: a text has 256 different bytes and the model's vocabulary only "
                    "{} (a token is a byte); try vocabulary_size 256 or more",
                    path, needs.vocabulary_size));
  MappedFile file = TPT_TRY(MappedFile::open(path));
  if (static_cast<int64_t>(file.bytes().size()) <= needs.sequence_length)
    return error(
        fmt::format("{}: {} bytes are less than one sequence (of {} tokens and the one "
                    "after); use a longer file or a shorter sequence_length",
                    path, file.bytes().size(), needs.sequence_length));
  return std::make_unique<TextTokens>(std::move(file), needs);
}

}  // namespace triplepoint::trainer
