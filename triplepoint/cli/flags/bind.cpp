// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/bind.h"

#include <charconv>

#include <fmt/format.h>

namespace triplepoint::cli {

Store into(std::string& target) {
  return [&target](std::string_view text) -> Result<void> {
    target = text;
    return {};
  };
}

Store into(std::optional<std::string>& target) {
  return [&target](std::string_view text) -> Result<void> {
    target = std::string(text);
    return {};
  };
}

Store into(std::optional<int64_t>& target) {
  return [&target](std::string_view text) -> Result<void> {
    target = TPT_TRY(parse_count(text));
    return {};
  };
}

Store into(std::optional<uint64_t>& target) {
  return [&target](std::string_view text) -> Result<void> {
    const int64_t value = TPT_TRY(parse_count(text));
    if (value < 0) return error(fmt::format("{} is negative; use 0 or more", value));
    target = static_cast<uint64_t>(value);
    return {};
  };
}

Store into(std::vector<std::string>& target) {
  return [&target](std::string_view text) -> Result<void> {
    target.emplace_back(text);
    return {};
  };
}

Store into(std::optional<std::vector<int64_t>>& target) {
  return [&target](std::string_view text) -> Result<void> {
    std::vector<int64_t> numbers;
    for (const std::string& piece : TPT_TRY(split_list(text))) {
      numbers.push_back(TPT_TRY(parse_count(piece)));
    }
    target = std::move(numbers);
    return {};
  };
}

Store into_switch(bool& target) {
  return [&target](std::string_view) -> Result<void> {
    target = true;
    return {};
  };
}

}  // namespace triplepoint::cli
