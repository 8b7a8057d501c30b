// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/number_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace triplepoint {
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

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  const int decimals = std::clamp(digits - 1 - magnitude, 0, 12);
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return with_thousands(text);
}

std::string significant(const std::optional<double>& value, int digits) {
  return value ? significant(*value, digits) : "–";
}

std::string whole(int64_t value) {
  return with_thousands(std::to_string(value));
}

std::string percent(double share) {
  const double value = share * 100;
  return (std::abs(value) < 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value)) +
         " %";
}

std::string times_or_percent_more(double ratio) {
  return ratio >= 2 ? significant(ratio, 2) + " times" : percent(ratio - 1);
}

TimeUnit time_unit(int64_t longest_ns) {
  if (longest_ns >= 10'000'000'000) return {"s", 1e9};
  if (longest_ns >= 100'000'000) return {"ms", 1e6};
  return {"us", 1e3};
}

std::string in_unit(double ns, const TimeUnit& unit) {
  return with_thousands(fmt::format("{:.{}f}", ns / unit.ns, unit.ns > 1e3 ? 3 : 1));
}

}  // namespace triplepoint
