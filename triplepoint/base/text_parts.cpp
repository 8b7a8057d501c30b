// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/text_parts.h"

#include <algorithm>
#include <charconv>

#include "triplepoint/base/text.h"

namespace triplepoint {

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
