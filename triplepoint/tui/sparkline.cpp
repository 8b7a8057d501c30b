// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/sparkline.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace triplepoint::tui {
namespace {

using Values = std::vector<std::optional<double>>;

constexpr std::string_view blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view ascii[] = {"_", ".", "-", "=", "+", "*", "%", "#"};

}  // namespace

std::optional<std::pair<double, double>> range_of(const Values& values) {
  std::optional<std::pair<double, double>> range;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) continue;
    if (!range) range = {*value, *value};
    range->first = std::min(range->first, *value);
    range->second = std::max(range->second, *value);
  }
  return range;
}

std::string sparkline(const Values& values, bool unicode) {
  const auto range = range_of(values);
  std::string line;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) {
      line += ' ';
      continue;
    }
    const double width = range->second - range->first;
    const double share = width > 0 ? (*value - range->first) / width : 0.5;
    const auto step = static_cast<std::size_t>(std::clamp(std::floor(share * 8), 0.0, 7.0));
    line += unicode ? blocks[step] : ascii[step];
  }
  return line;
}

}  // namespace triplepoint::tui
