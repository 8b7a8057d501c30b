// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

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

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
inline bool contains(std::string_view text, char letter) {
  return text.find(letter) != std::string_view::npos;
}

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

/// Fewest insertions, deletions, replacements and swaps of neighbours which turn one word into the
/// other. Letters in the other case count as equal. Source: "optimal string alignment" form of
/// Damerau's distance.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that `word` was probably meant to be; none if all are farther than a third of its
/// length. Of equally close ones, the first.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> known);

/// The way out at the end of a message about an unknown word: `did you mean "x"?` or `known are a,
/// b, c`, of many the first 80.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

/// A whole number, all of the text.
Result<int64_t> parse_count(std::string_view text);
/// "a,b,c" without the commas; empty pieces are errors.
Result<std::vector<std::string>> split_list(std::string_view text);

/// A finite number at the head of a text, and what follows it, both without blanks around; nothing
/// where there is none.
struct NumberAndRest {
  double number = 0;
  std::string_view rest;
};
std::optional<NumberAndRest> split_number(std::string_view text);

/// "tp=8,sp" as {"tp", "8"} and {"sp", nothing}.
struct Assignment {
  std::string name;
  std::optional<std::string> value;
};
std::vector<Assignment> assignments(std::string_view text);

/// With as many digits behind the point; what they round to zero has no minus.
std::string fixed_point(double value, int decimals);
/// `digits` significant digits, never in scientific form, thousands apart: 24.9, 1,465, 0.0312.
std::string significant(double value, int digits = 3);
/// The same; an en dash for an absent number.
std::string significant(const std::optional<double>& value, int digits = 3);
/// All digits of a whole number, thousands apart: 1,576,964.
std::string whole(int64_t value);
/// "12 %" of 0.123.
std::string percent(double share);

/// The time that a column of nanoseconds is printed in, by the longest of them: one unit a table.
struct TimeUnit {
  const char* name;
  double ns;
};
TimeUnit time_unit(int64_t longest_ns);
/// Nanoseconds in a unit, to a tenth of a microsecond, thousands apart: "18,749.0" us, "132.041"
/// ms.
std::string in_unit(double ns, const TimeUnit& unit);

/// 64 bits of a text, as 16 hexadecimal digits. FNV-1a (Fowler, Noll, Vo).
std::string digest(std::string_view text);

}  // namespace triplepoint
