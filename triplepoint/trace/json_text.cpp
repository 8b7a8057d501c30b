// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/json_text.h"

#include <charconv>
#include <cstdint>
#include <optional>

namespace triplepoint::trace {

namespace {

void append_utf8(std::string& text, uint32_t code) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

std::optional<uint32_t> four_hex(std::string_view raw, size_t at) {
  uint32_t code = 0;
  if (at + 4 > raw.size()) return std::nullopt;
  const char* const end = raw.data() + at + 4;
  const auto [stop, problem] = std::from_chars(raw.data() + at, end, code, 16);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return code;
}

/// `\u` and its digits from `at`, the half of a pair with its other half; how long that is.
size_t append_unicode(std::string& text, std::string_view raw, size_t at) {
  const auto code = four_hex(raw, at + 2);
  if (!code) return text.append("\\u"), 2;
  if (*code < 0xd800 || *code > 0xdfff) return append_utf8(text, *code), 6;
  const auto low = raw.substr(at + 6).starts_with("\\u") ? four_hex(raw, at + 8) : std::nullopt;
  if (*code > 0xdbff || !low || *low < 0xdc00 || *low > 0xdfff)
    return append_utf8(text, 0xfffd), 6;  // half a pair
  append_utf8(text, 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00));
  return 12;
}

}  // namespace

std::string unescaped(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      text.push_back(raw[i++]);
      continue;
    }
    if (raw[i + 1] == 'u') {
      i += append_unicode(text, raw, i);
      continue;
    }
    constexpr std::string_view letters = "bfnrt", meanings = "\b\f\n\r\t";
    const size_t letter = letters.find(raw[i + 1]);
    text.push_back(letter == std::string_view::npos ? raw[i + 1] : meanings[letter]);
    i += 2;
  }
  return text;
}

}  // namespace triplepoint::trace
