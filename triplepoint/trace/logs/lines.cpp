// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/lines.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "triplepoint/base/text.h"

namespace triplepoint::trace {

namespace {

constexpr size_t longest_line = size_t{1} << 20U;

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

std::optional<double> leading_number(std::string_view text) {
  std::string digits;
  size_t i = 0;
  for (; i < text.size() && i < 64; ++i) {
    const char c = text[i];
    const bool thousands = c == ',' && i > 0 && is_digit(text[i - 1]) && i + 3 < text.size() &&
                           is_digit(text[i + 1]) && is_digit(text[i + 2]) && is_digit(text[i + 3]);
    if (thousands) continue;
    const bool sign =
        (c == '-' || c == '+') && (i == 0 || text[i - 1] == 'e' || text[i - 1] == 'E');
    if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !sign) break;
    if (c != '+' || i > 0) digits.push_back(c);
  }
  double value = 0;
  const auto [stop, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string without_colours(std::string_view line) {
  std::string plain;
  plain.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      plain.push_back(line[i]);
      continue;
    }
    // ESC [ parameters, then one letter. Anything else of that kind is two characters.
    if (i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && !(line[i] >= '@' && line[i] <= '~'))
        ++i;
    } else {
      ++i;
    }
  }
  return plain;
}

Result<bool> for_each_line(Input& input, const std::function<void(std::string_view)>& visit) {
  const auto give = [&](std::string_view line) {
    if (!contains(line, '\x1b')) return visit(line);
    visit(without_colours(line));
  };
  for (;;) {
    const std::string_view ahead = input.ahead();
    const size_t end = ahead.find_first_of("\n\r");
    if (end != std::string_view::npos || ahead.size() >= longest_line) {
      const size_t size = std::min({end, ahead.size(), longest_line});
      give(ahead.substr(0, size));
      input.skip(size + (size == end ? 1 : 0));
    } else if (!TPT_TRY(input.fill())) {
      give(input.ahead());
      const bool complete = input.ahead().empty();
      input.skip(input.ahead().size());
      return complete;
    }
  }
}

std::optional<double> number_after(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && is_word(text[at - 1]) && is_word(key.front())) continue;
    std::string_view rest = text.substr(at + key.size());
    const size_t begin = rest.find_first_not_of(" :=\t.");  // Megatron's arguments: "name .... 8"
    if (begin == std::string_view::npos || (begin == 0 && is_word(key.back()))) continue;
    return leading_number(rest.substr(begin));
  }
  return std::nullopt;
}

std::optional<int64_t> integer_after(std::string_view text, std::string_view key) {
  const std::optional<double> number = number_after(text, key);
  if (!number || !(std::abs(*number) < 9e15)) return std::nullopt;
  return std::llround(*number);
}

std::optional<Stamp> stamp_of(std::string_view text) {
  size_t at = 0;
  const auto digits = [&](size_t most) -> std::optional<int> {
    int value = 0;
    const size_t begin = at;
    while (at < text.size() && at - begin < most && is_digit(text[at]))
      value = 10 * value + (text[at++] - '0');
    return at > begin ? std::optional(value) : std::nullopt;
  };
  const auto part = [&](std::string_view before) {
    while (at < text.size() && contains(before, text[at]))
      ++at;
    return digits(2);
  };
  const auto year = digits(4), month = part("-/"), day = part("-/"), hour = part("T "),
             minute = part(":"), second = part(":");
  const bool is_whole = year && month && day && hour && minute && second;
  // Nanoseconds of 64 bits end in 2262.
  if (!is_whole || *year < 1970 || *year > 2200) return std::nullopt;
  int64_t ns = 0, unit = 100'000'000;
  if (at < text.size() && (text[at] == '.' || text[at] == ','))
    for (++at; at < text.size() && is_digit(text[at]); ++at, unit /= 10)
      ns += unit * (text[at] - '0');
  namespace chrono = std::chrono;
  const chrono::year_month_day date{chrono::year(*year),
                                    chrono::month(static_cast<unsigned>(*month)),
                                    chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const chrono::seconds time = chrono::sys_days(date).time_since_epoch() + chrono::hours(*hour) +
                               chrono::minutes(*minute) + chrono::seconds(*second);
  return Stamp{Instant(time.count() * 1'000'000'000 + ns), at};
}

std::optional<Instant> last_stamp(std::string_view text) {
  constexpr size_t shortest = 19;  // dddd-dd-dd dd:dd:dd
  for (size_t at = text.size() < shortest ? 0 : text.size() - shortest + 1; at-- > 0;) {
    const std::string_view here = text.substr(at);
    if (here[4] != '-' || here[7] != '-' || here[13] != ':' || here[16] != ':') continue;
    if (const auto stamp = stamp_of(here)) return stamp->time;
  }
  return std::nullopt;
}

}  // namespace triplepoint::trace
