// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint {

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

}  // namespace triplepoint
