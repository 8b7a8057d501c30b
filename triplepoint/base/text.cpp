// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "triplepoint/base/number_text.h"

namespace triplepoint {
namespace {

/// The run of digits at the head of `text`, without leading zeros.
std::string_view take_digits(std::string_view& text) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end]))
    ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  while (digits.size() > 1 && digits.front() == '0')
    digits.remove_prefix(1);
  return digits;
}

bool same_letter(char a, char b) {
  return lower_case(a) == lower_case(b);
}

}  // namespace

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return lower_case(c); });
  return result;
}

std::string upper_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const bool belongs = is_digit(c) || is_letter(c);
    if (belongs && !inside) words.emplace_back();
    if (belongs) words.back().push_back(lower_case(c));
    inside = belongs;
  }
  return words;
}

std::optional<int64_t> whole_number(std::string_view text) {
  const auto value = number_of_text<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view left = take_digits(a), right = take_digits(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else if (a.front() != b.front()) {
      return a.front() < b.front();
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // 01 and 1: a strict order all the same
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table of distances between the heads of both words: a swap looks two rows
  // back.
  std::vector<std::size_t> two_back, previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (swapped) current[j] = std::min(current[j], two_back[j - 2] + 1);
    }
    two_back = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t longest = 100;  // longer texts are not keys
  if (word.size() > longest) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& each : known) {
    const std::size_t distance = edit_distance(word, each);
    if (distance >= best_distance || distance >= std::max(word.size(), each.size())) continue;
    best = &each;
    best_distance = distance;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  if (const auto guess = closest_word(word, known))
    return fmt::format("did you mean \"{}\"?", *guess);
  if (known.empty()) return "nothing is known here; leave it out";
  constexpr std::size_t most_listed = 80;
  const auto listed = known.first(std::min(known.size(), most_listed));
  std::string text = fmt::format("known are {}", fmt::join(listed, ", "));
  if (known.size() > listed.size())
    text += fmt::format(" and {} more; see docs/formats.md", known.size() - listed.size());
  return text;
}

Result<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc::result_out_of_range)
    return error("{} is too large a number; write at most {}", text, INT64_MAX);
  if (problem != std::errc() || end != text.data() + text.size()) {
    return error("\"{}\" is not a whole number; write digits only, as in 8", text);
  }
  return value;
}

Result<std::vector<std::string>> split_list(std::string_view text) {
  std::vector<std::string> pieces;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view piece = text.substr(0, comma);
    if (piece.empty()) {
      return error("a list has an empty entry; separate entries by single commas, as in a,b,c");
    }
    pieces.emplace_back(piece);
    if (comma == std::string_view::npos) return pieces;
    text.remove_prefix(comma + 1);
  }
}

namespace {

std::string with_thousands(std::string digits) {
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.starts_with("-") ? 1 : 0;
  for (std::size_t at = point; at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace

std::string fixed_point(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find_first_not_of("-0.") == text.npos && text.front() == '-') text.erase(0, 1);
  return text;
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  const int decimals = std::clamp(digits - 1 - magnitude, 0, 12);
  return with_thousands(fixed_point(value, decimals));
}

std::string significant(const std::optional<double>& value, int digits) {
  return value ? significant(*value, digits) : "–";
}

std::string whole(int64_t value) {
  return with_thousands(std::to_string(value));
}

std::string percent(double share) {
  const double value = share * 100;
  return fixed_point(value, std::abs(value) < 10 ? 1 : 0) + " %";
}

TimeUnit time_unit(int64_t longest_ns) {
  if (longest_ns >= 10'000'000'000) return {"s", 1e9};
  if (longest_ns >= 100'000'000) return {"ms", 1e6};
  return {"us", 1e3};
}

std::string in_unit(double ns, const TimeUnit& unit) {
  return with_thousands(fixed_point(ns / unit.ns, unit.ns > 1e3 ? 3 : 1));
}

std::string digest(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return fmt::format("{:016x}", hash);
}

std::optional<NumberAndRest> split_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  // from_chars also takes "inf" and "nan", which are not quantities.
  const bool digit_ahead = text.find_first_of("0123456789") <= (text.starts_with('-') ? 2U : 1U);
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || !digit_ahead) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return NumberAndRest{number, trimmed(text)};
}

std::vector<Assignment> assignments(std::string_view text) {
  std::vector<Assignment> all;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    all.push_back({part.substr(0, equals), std::nullopt});
    if (equals < part.size()) all.back().value = part.substr(equals + 1);
  }
  return all;
}

}  // namespace triplepoint
