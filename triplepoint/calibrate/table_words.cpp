// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/table_words.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "triplepoint/base/text.h"

namespace triplepoint::calibrate {
namespace {

size_t find_word(std::string_view text, std::string_view word) {
  const auto at = std::search(text.begin(), text.end(), word.begin(), word.end(),
                              [](char a, char b) { return lower_case(a) == lower_case(b); });
  return at == text.end() && !word.empty() ? std::string_view::npos
                                           : static_cast<size_t>(at - text.begin());
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) {
  return find_word(text, word) != std::string_view::npos;
}

std::optional<int64_t> number_after(std::string_view text, std::string_view key) {
  for (size_t at = find_word(text, key); at != std::string_view::npos; at = find_word(text, key)) {
    text.remove_prefix(at + key.size());
    int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault == std::errc()) return number;
  }
  return std::nullopt;
}

std::optional<double> number_before(std::string_view text, std::string_view unit) {
  for (size_t at = text.find(unit); at != std::string_view::npos; at = text.find(unit, at + 1)) {
    size_t end = at;
    while (end > 0 && text[end - 1] == ' ')
      --end;
    size_t begin = end;
    while (begin > 0 && is_digit(text[begin - 1]))
      --begin;
    if (begin == end) continue;
    double number = 0;
    std::from_chars(text.data() + begin, text.data() + end, number);
    return number;
  }
  return std::nullopt;
}

}  // namespace triplepoint::calibrate
