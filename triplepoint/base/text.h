// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
inline char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower_case(std::string_view text);  // of ASCII letters
std::string upper_case(std::string_view text);

/// Without blanks at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n\v\f");
std::string_view unquoted(std::string_view text);  // without one pair of " or ' around it
std::vector<std::string> split(std::string_view text, char separator);
std::string joined(const std::vector<std::string>& words, std::string_view separator = " ");
std::vector<std::string_view> lines_of(std::string_view text);

/// Letters and digits that stand together: "sweep-h200/gpt3_5" is {"sweep", "h200", "gpt3", "5"}.
/// In lower case.
std::vector<std::string> words_of(std::string_view text);

/// Decimal digits only.
std::optional<int64_t> whole_number(std::string_view text);

/// file9 before file10: runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace triplepoint
