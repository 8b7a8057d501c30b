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
    if (line.find('\x1b') == std::string_view::npos) return visit(line);
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

namespace {

constexpr std::string_view stamp_form = "dddd-dd-dd?dd:dd:dd";

bool is_stamp(std::string_view text) {
  if (text.size() < stamp_form.size()) return false;
  for (size_t i = 0; i < stamp_form.size(); ++i) {
    const char want = stamp_form[i];
    if (want == 'd' && !is_digit(text[i])) return false;
    if (want == '?' && text[i] != ' ' && text[i] != 'T') return false;
    if (want != 'd' && want != '?' && text[i] != want) return false;
  }
  return true;
}

int number_in(std::string_view text, size_t from, size_t count) {
  int value = 0;
  for (const char c : text.substr(from, count))
    value = value * 10 + (c - '0');
  return value;
}

/// Nanoseconds of ",123" or ".123456" behind the seconds.
int64_t fraction_ns(std::string_view text) {
  if (text.empty() || (text[0] != ',' && text[0] != '.')) return 0;
  int64_t value = 0, unit = 100'000'000;
  for (size_t i = 1; i < text.size() && is_digit(text[i]) && unit > 0; ++i, unit /= 10)
    value += (text[i] - '0') * unit;
  return value;
}

}  // namespace

std::optional<Instant> last_stamp(std::string_view text) {
  for (size_t at = text.size() >= stamp_form.size() ? text.size() - stamp_form.size() + 1 : 0;
       at-- > 0;) {
    const std::string_view here = text.substr(at);
    if (!is_stamp(here)) continue;
    using namespace std::chrono;
    const year_month_day date = year(number_in(here, 0, 4)) /
                                month(static_cast<unsigned>(number_in(here, 5, 2))) /
                                day(static_cast<unsigned>(number_in(here, 8, 2)));
    // Nanoseconds of 64 bits end in 2262.
    if (!date.ok() || number_in(here, 0, 4) < 1970 || number_in(here, 0, 4) > 2200)
      return std::nullopt;
    const seconds time = sys_days(date).time_since_epoch() + hours(number_in(here, 11, 2)) +
                         minutes(number_in(here, 14, 2)) + seconds(number_in(here, 17, 2));
    return Instant(time.count() * 1'000'000'000 + fraction_ns(here.substr(stamp_form.size())));
  }
  return std::nullopt;
}

}  // namespace triplepoint::trace
