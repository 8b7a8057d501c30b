// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/lines.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <tuple>

#include "triplepoint/base/text.h"

namespace triplepoint::trace {

namespace {

namespace chrono = std::chrono;

constexpr size_t longest_line = size_t{1} << 20U;

chrono::sys_time<chrono::nanoseconds> sys(Instant time) {
  return chrono::sys_time<chrono::nanoseconds>(chrono::nanoseconds(time.nanoseconds()));
}

bool is_word(char c) {
  return is_digit(c) || is_letter(c) || c == '_';
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
  const auto part = [&](std::string_view before, size_t most = 2) {
    while (at < text.size() && contains(before, text[at]))
      ++at;
    return digits(most);
  };
  auto year = digits(4);
  const bool year_is_last = at <= 2;
  const char mark = at < text.size() ? text[at] : ' ';
  auto month = part("-/."), day = part("-/.", year_is_last ? 4 : 2), hour = part("T ,");
  const auto minute = part(":"), second = part(":");
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  DateOrder order = DateOrder::year;
  if (year_is_last) {
    std::tie(month, day, year) = std::tuple(year, month, day);
    order = mark == '.' || *month > 12 ? DateOrder::day
            : *day > 12                ? DateOrder::month
                                       : DateOrder::month_or_day;
    if (order == DateOrder::day) std::swap(month, day);
  }
  // Nanoseconds of 64 bits end in 2262.
  if (*year < 1970 || *year > 2200) return std::nullopt;
  int64_t ns = 0, unit = 100'000'000;
  if (at < text.size() && (text[at] == '.' || text[at] == ','))
    for (++at; at < text.size() && is_digit(text[at]); ++at, unit /= 10)
      ns += unit * (text[at] - '0');
  const std::string_view half = text.substr(at, 3);
  if (const bool pm = half == " PM"; pm || half == " AM")
    hour = *hour % 12 + (pm ? 12 : 0), at += half.size();
  const chrono::year_month_day date{chrono::year(*year),
                                    chrono::month(static_cast<unsigned>(*month)),
                                    chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const chrono::seconds time = chrono::sys_days(date).time_since_epoch() + chrono::hours(*hour) +
                               chrono::minutes(*minute) + chrono::seconds(*second);
  return Stamp{Instant(time.count() * 1'000'000'000 + ns), at, order};
}

Instant with_day_first(Instant time) {
  const chrono::sys_days days = chrono::floor<chrono::days>(sys(time));
  const chrono::year_month_day date(days);
  if (static_cast<unsigned>(date.day()) > 12) return time;
  const chrono::sys_days swapped = date.year() / static_cast<unsigned>(date.day()) /
                                   static_cast<int>(static_cast<unsigned>(date.month()));
  return time + as_real((swapped - days).count()) * 24 * unit::h;
}

std::optional<bool> have_day_first(const std::set<DateOrder>& orders, Instant first, Instant last) {
  const bool day = orders.contains(DateOrder::day), month = orders.contains(DateOrder::month);
  if (day && month) return std::nullopt;
  if (month || !orders.contains(DateOrder::month_or_day)) return false;
  const auto as_days = abs(with_day_first(last) - with_day_first(first)), as_months = last - first;
  return !day && as_days == as_months ? std::nullopt : std::optional(day || as_days < as_months);
}

bool is_summer_time(Instant before, Instant after, Seconds usual) {
  const chrono::sys_days day = chrono::floor<chrono::days>(sys(before));
  const auto hours = [&](Instant time) { return chrono::floor<chrono::hours>(sys(time) - day); };
  const auto month = static_cast<unsigned>(chrono::year_month_day(day).month());
  return abs(after - before - usual - unit::h) <= usual / 2 + unit::s &&
         chrono::weekday(day) == chrono::Sunday && hours(before).count() <= 3 &&
         hours(after) == hours(before) + chrono::hours(2) && month % 6 >= 3 && month != 5;
}

std::optional<Stamp> last_stamp(std::string_view text) {
  constexpr size_t shortest = 19;  // dddd-dd-dd dd:dd:dd
  const auto parts_date = [](char c) { return c == '-' || c == '/' || c == '.'; };
  for (size_t at = text.size() < shortest ? 0 : text.size() - shortest + 1; at-- > 0;) {
    const std::string_view here = text.substr(at);
    if (here[13] != ':' || here[16] != ':') continue;
    if ((parts_date(here[4]) && here[4] == here[7]) || (parts_date(here[2]) && here[2] == here[5]))
      if (const auto stamp = stamp_of(here)) return stamp;
  }
  return std::nullopt;
}

}  // namespace triplepoint::trace
