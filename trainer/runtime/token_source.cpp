// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/token_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triplepoint/base/random.h"

namespace triplepoint::trainer {
namespace {

using FileBytes = std::span<const std::byte>;

template <class T>
T read_at(FileBytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// FileBytes of a token by the index' code; 0 where tokens are no whole numbers.
/// Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py (class DType).
size_t token_bytes(uint8_t code) {
  constexpr std::array<size_t, 9> sizes = {0, 1, 1, 2, 4, 8, 0, 0, 2};
  return code < sizes.size() ? sizes[code] : 0;
}

/// Of a file whose type has been read.
size_t tokens_in(FileBytes file, uint8_t code) {
  return file.size() / std::max<size_t>(1, token_bytes(code));
}

int64_t token_at(FileBytes bytes, uint8_t code, size_t index) {
  switch (code) {
    case 1:
      return read_at<uint8_t>(bytes, index);
    case 2:
      return read_at<int8_t>(bytes, index);
    case 3:
      return read_at<int16_t>(bytes, index * 2);
    case 4:
      return read_at<int32_t>(bytes, index * 4);
    case 5:
      return read_at<int64_t>(bytes, index * 8);
    default:
      return read_at<uint16_t>(bytes, index * 2);
  }
}

/// Head of the index: magic, version, code of the tokens' type, counts of sequences and documents.
constexpr std::string_view magic{"MMIDIDX\0\0", 9};
constexpr size_t head_bytes = 9 + 8 + 1 + 8 + 8;

Result<uint8_t> read_token_type(const std::string& path, FileBytes index) {
  const auto broken = [&](std::string_view why) {
    return error(
        fmt::format("{}: is no index of a Megatron-LM dataset ({}); make it with "
                    "Megatron-LM's tools/preprocess_data.py",
                    path, why));
  };
  if (index.size() < head_bytes) return broken("it is shorter than the head of one");
  if (std::memcmp(index.data(), magic.data(), magic.size()) != 0)
    return broken("it does not begin with MMIDIDX");
  if (read_at<uint64_t>(index, 9) != 1)
    return broken(fmt::format("version {}, only 1 is known", read_at<uint64_t>(index, 9)));
  const auto code = read_at<uint8_t>(index, 17);
  if (token_bytes(code) == 0)
    return broken(fmt::format("tokens of type {} are no whole numbers", code));
  const auto sequences = read_at<uint64_t>(index, 18), documents = read_at<uint64_t>(index, 26);
  if (sequences > index.size() || documents > index.size() ||
      index.size() < head_bytes + sequences * 12 + documents * 8)
    return broken(fmt::format("{} sequences and {} documents do not fit into its {} bytes",
                              sequences, documents, index.size()));
  return code;
}

class IndexedTokens : public TokenSource {
 public:
  IndexedTokens(MappedFile file, uint8_t code, const TokenNeeds& needs)
      : file_(std::move(file)),
        code_(code),
        length_(needs.sequence_length),
        windows_((count() - 1) / length_, needs.seed) {}

  int64_t count() const { return static_cast<int64_t>(tokens_in(file_.bytes(), code_)); }
  int64_t token(int64_t index) const {
    return token_at(file_.bytes(), code_, static_cast<size_t>(index));
  }
  void read(int64_t sample, std::span<int32_t> tokens) const override {
    int64_t at = windows_.of_sample(sample) * length_;
    for (int32_t& token : tokens)
      token = static_cast<int32_t>(this->token(at++));
  }

 private:
  MappedFile file_;
  uint8_t code_;
  int64_t length_;
  Windows windows_;
};

Result<void> check_words(const std::string& path, const IndexedTokens& tokens, int64_t words) {
  for (int64_t i = 0; i < tokens.count(); ++i)
    if (const int64_t token = tokens.token(i); token < 0 || token >= words)
      return error(
          fmt::format("{}: token {} is {}, outside of the model's vocabulary of {} (the "
                      "dataset was made by another tokenizer); use the model of that "
                      "tokenizer, or tokenize again",
                      path, i, token, words));
  return {};
}

}  // namespace

Result<std::unique_ptr<TokenSource>> open_indexed_tokens(const std::string& prefix,
                                                         const TokenNeeds& needs) {
  const std::string bin = prefix + ".bin", idx = prefix + ".idx";
  const MappedFile index = TPT_TRY(MappedFile::open(idx));
  const uint8_t code = TPT_TRY(read_token_type(idx, index.bytes()));
  MappedFile file = TPT_TRY(MappedFile::open(bin));
  if (tokens_in(file.bytes(), code) <= static_cast<size_t>(needs.sequence_length))
    return error(
        fmt::format("{}: {} bytes are less than one sequence (of {} tokens and the one "
                    "after); use a larger dataset or a shorter sequence_length",
                    bin, file.bytes().size(), needs.sequence_length));
  auto tokens = std::make_unique<IndexedTokens>(std::move(file), code, needs);
  TPT_TRY(check_words(bin, *tokens, needs.vocabulary_size));
  return tokens;
}

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

std::string data_file(const std::string& data) {
  if (data.empty() || data == "synthetic") return {};
  return ends_with(data, ".idx") ? data.substr(0, data.size() - 4) + ".bin" : data;
}

Result<std::unique_ptr<TokenSource>> open_tokens(const std::string& data, const TokenNeeds& needs) {
  if (data.empty() || data == "synthetic") return make_synthetic_tokens(needs);
  for (const std::string_view end : {".bin", ".idx"})
    if (ends_with(data, end))
      return open_indexed_tokens(data.substr(0, data.size() - end.size()), needs);
  return open_text_tokens(data, needs);
}

namespace {

tl::unexpected<Error> cannot_read(const std::string& path, const char* why) {
  return error(
      fmt::format("{}: cannot be read ({}); name a file that exists and may be read", path, why));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_read(path, std::strerror(errno));
  struct stat about {};
  const bool is_file = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const auto size = static_cast<size_t>(is_file ? about.st_size : 0);
  void* start = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  const int why = errno;
  ::close(file);
  if (!is_file) return cannot_read(path, "it is no plain file");
  if (size == 0) return cannot_read(path, "it is empty");
  if (start == MAP_FAILED) return cannot_read(path, std::strerror(why));
  return MappedFile({static_cast<const std::byte*>(start), size});
}

MappedFile::~MappedFile() {
  // munmap takes what mmap gave, which had no const.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace triplepoint::trainer
