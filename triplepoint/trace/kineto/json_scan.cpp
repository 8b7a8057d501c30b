// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/json_scan.h"

#include <charconv>
#include <limits>

#include "triplepoint/base/text.h"

namespace triplepoint::trace::json_scan {

namespace {

/// Whether a value may be followed by this.
bool ends_value(char c) {
  return c == ',' || c == '}' || c == ']' || is_space(c) || c == '\0';
}

/// `1.5e3`, `NaN`, `null`, `true`: up to what ends a value.
bool skip_bare(const char*& at) {
  const char* const begin = at;
  while (!ends_value(*at) && *at != '"' && *at != '{' && *at != '[' && *at != ':')
    ++at;
  return at != begin;
}

/// Digits into `value`; false if they do not fit.
bool read_digits(const char*& at, int64_t& value) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (; is_digit(*at); ++at) {
    const int64_t digit = *at - '0';
    if (value > (most - digit) / 10) return false;
    value = value * 10 + digit;
  }
  return true;
}

/// value * 10^power / 1, rounded half up where digits fall off; false if it does not fit.
bool scale(int64_t& value, int power) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (; power > 0 && value != 0; --power) {
    if (value > most / 10) return false;
    value *= 10;
  }
  if (power < -18) value = 0;
  for (; power < -1 && value != 0; ++power)
    value /= 10;
  if (power < 0) value = value / 10 + (value % 10 >= 5 ? 1 : 0);
  return true;
}

/// A decimal number as digits * 10^power; digits that do not fit into 64 bits are an error in front
/// of the point and are left out behind it.
struct Decimal {
  int64_t digits = 0;
  int power = 0;
  bool negative = false;
};

/// The digits behind the point; those that do not fit are left out.
void read_fraction(const char*& at, Decimal& number) {
  constexpr int64_t room = std::numeric_limits<int64_t>::max() / 10 - 1;
  for (; is_digit(*at); ++at) {
    if (number.digits >= room) continue;
    number.digits = number.digits * 10 + (*at - '0');
    --number.power;
  }
}

bool read_exponent(const char*& at, Decimal& number) {
  const bool minus = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  int64_t exponent = 0;
  if (!is_digit(*at) || !read_digits(at, exponent) || exponent > 400) return false;
  number.power += static_cast<int>(minus ? -exponent : exponent);
  return true;
}

bool read_decimal(const char*& at, Decimal& number) {
  number.negative = *at == '-';
  if (number.negative) ++at;
  if (!is_digit(*at) || !read_digits(at, number.digits)) return false;
  if (*at == '.') read_fraction(++at, number);
  if (*at == 'e' || *at == 'E') return read_exponent(++at, number);
  return true;
}

/// Reads a decimal that may stand in quotes, at * 10^power.
bool read_scaled(const char*& at, int power, int64_t& value) {
  const char* text = at;
  const bool quoted = *text == '"';
  if (quoted) ++text;
  Decimal number;
  if (!read_decimal(text, number) || !scale(number.digits, number.power + power)) return false;
  if (quoted ? *text != '"' : !ends_value(*text)) return false;
  value = number.negative ? -number.digits : number.digits;
  at = quoted ? text + 1 : text;
  return true;
}

}  // namespace

bool skip_nested(const char*& at) {
  int levels = 0;
  for (;;) {
    const unsigned marks = SimdBytes(at).nesting_marks();
    if (marks == 0) {
      at += 16;
      continue;
    }
    at += first_bit(marks);
    switch (*at) {
      case '"':
        at = string_end(at + 1);
        if (*at != '"') return false;
        // What follows a string tells whether its quotes are the right ones.
        ++at;
        if (*at != ':' && !ends_value(*at)) return false;
        continue;
      case '{':
      case '[':
        if (++levels > most_levels) return false;
        break;
      case '\0':
        return false;
      default:
        if (--levels <= 0) return ++at, true;
    }
    ++at;
  }
}

bool skip_value(const char*& at) {
  std::string_view text;
  if (*at == '"') return skip_string(at, text);
  return *at == '{' || *at == '[' ? skip_nested(at) : skip_bare(at);
}

bool read_integer(const char*& at, int64_t& value) {
  // Nearly all are plain digits.
  const char* text = at;
  int64_t digits = 0;
  while (is_digit(*text) && text < at + 18)
    digits = digits * 10 + (*text++ - '0');
  if (text > at && (*text == ',' || ends_value(*text))) {
    value = digits;
    at = text;
    return true;
  }
  return read_scaled(at, 0, value);
}

bool read_microseconds(const char*& at, int64_t& nanoseconds) {
  return read_scaled(at, 3, nanoseconds);
}

bool read_float(const char*& at, float& value) {
  const char* end = at;
  if (!skip_bare(end)) return false;
  const auto [stop, problem] = std::from_chars(at, end, value);
  if (problem != std::errc() || stop != end) return false;
  at = end;
  return true;
}

}  // namespace triplepoint::trace::json_scan
