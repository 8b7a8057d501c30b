// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace triplepoint::trace {

namespace {

constexpr size_t block = 512;

std::string_view field(std::string_view header, size_t begin, size_t size) {
  const std::string_view text = header.substr(begin, size);
  return text.substr(0, std::min(text.find('\0'), text.size()));
}

/// Octal digits, or a big-endian number behind a first byte of 0x80 where they do not suffice.
std::optional<uint64_t> size_of(std::string_view header) {
  std::string_view text = header.substr(124, 12);
  uint64_t size = 0;
  if (static_cast<uint8_t>(text[0]) == 0x80) {
    for (const char c : text.substr(4))
      size = size << 8 | static_cast<uint8_t>(c);
    return size;
  }
  text = field(header, 124, 12);
  while (text.starts_with(' '))
    text.remove_prefix(1);
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), size, 8);
  if (problem != std::errc()) return std::nullopt;
  return size;
}

std::string name_of(std::string_view header) {
  const std::string_view prefix = field(header, 345, 155), name = field(header, 0, 100);
  const bool has_prefix = header.substr(257, 6) == std::string_view("ustar\0", 6);
  if (!has_prefix || prefix.empty()) return std::string(name);
  return fmt::format("{}/{}", prefix, name);
}

/// The value of `path` in pax' records, "<length> path=<name>\n".
std::optional<std::string> pax_path(std::string_view records) {
  constexpr std::string_view key = " path=";
  const size_t found = records.find(key);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view rest = records.substr(found + key.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

}  // namespace

class TarContents : public Source {
 public:
  explicit TarContents(Tar& tar) : tar_(tar) {}
  Result<size_t> read(std::span<char> room) override { return tar_.read(room); }

 private:
  Tar& tar_;
};

bool looks_like_tar(std::string_view head) {
  return head.size() >= block && head.substr(257, 5) == "ustar";
}

Result<bool> Tar::pass_over(uint64_t size) {
  while (size > 0) {
    if (archive_.ahead().empty() && !TPT_TRY(archive_.fill())) return false;
    const size_t step = std::min<uint64_t>(size, archive_.ahead().size());
    archive_.skip(step);
    size -= step;
  }
  return true;
}

Result<size_t> Tar::read(std::span<char> room) {
  if (left_ == 0) return size_t{0};
  if (archive_.ahead().empty() && !TPT_TRY(archive_.fill()))
    return error("{} is cut off (a file in it is not complete); try the original", archive_.name());
  const size_t size = std::min<uint64_t>({room.size(), left_, uint64_t{archive_.ahead().size()}});
  std::memcpy(room.data(), archive_.ahead().data(), size);
  archive_.skip(size);
  left_ -= size;
  return size;
}

Result<std::string> Tar::text_of(uint64_t size) {
  constexpr uint64_t longest = 1 << 20;
  if (size > longest)
    return error("{} is damaged (a name in it is of {} bytes); try the original", archive_.name(),
                 size);
  const uint64_t whole = (size + block - 1) / block * block;
  std::string text(TPT_TRY(archive_.peek(whole)).substr(0, size));
  TPT_TRY(pass_over(whole));
  return text;
}

Result<std::optional<Tar::Entry>> Tar::next() {
  TPT_TRY(pass_over(left_ + padding_));
  left_ = padding_ = 0;
  std::optional<std::string> long_name;
  for (;;) {
    const std::string_view header = TPT_TRY(archive_.peek(block));
    if (header.size() < block || header[0] == '\0') return std::optional<Entry>();
    const auto size = size_of(header.substr(0, block));
    if (!looks_like_tar(header) || !size)
      return error("{} is damaged (a header in it is not one); try the original", archive_.name());
    const char kind = header[156];
    Entry entry{name_of(header), *size};
    archive_.skip(block);
    if (kind == 'L' || kind == 'x') {
      const std::string text = TPT_TRY(text_of(*size));
      long_name = kind == 'L' ? std::string(field(text, 0, text.size())) : pax_path(text);
      continue;
    }
    padding_ = (block - *size % block) % block;
    if (kind == '0' || kind == '\0') {
      left_ = *size;
      if (long_name) entry.name = *long_name;
      return std::optional<Entry>(std::move(entry));
    }
    TPT_TRY(pass_over(*size + padding_));
    padding_ = 0;
    long_name.reset();
  }
}

std::unique_ptr<Source> Tar::contents() {
  return std::make_unique<TarContents>(*this);
}

}  // namespace triplepoint::trace
