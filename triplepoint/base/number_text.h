// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace triplepoint {

/// All of the text as a number, without blanks or a plus; of a double also "inf" and "nan".
template <class Number>
std::optional<Number> number_of_text(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// The numbers that digits in the text write, whatever stands between them; not those too large.
template <class Number>
std::vector<Number> numbers_in(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  std::vector<Number> numbers;
  while (true) {
    text.remove_prefix(std::min(text.find_first_of(digits), text.size()));
    if (text.empty()) return numbers;
    const std::size_t end = std::min(text.find_first_not_of(digits), text.size());
    if (const auto number = number_of_text<Number>(text.substr(0, end))) numbers.push_back(*number);
    text.remove_prefix(end);
  }
}

}  // namespace triplepoint
