// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/bind.h"

namespace triplepoint::flags {

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
  return into(target, parse_count);
}

Store into(std::optional<uint64_t>& target) {
  return [&target](std::string_view text) -> Result<void> {
    const int64_t value = TPT_TRY(parse_count(text));
    if (value < 0) return error("{} is negative; use 0 or more", value);
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
    for (const std::string& piece : TPT_TRY(split_list(text)))
      numbers.push_back(TPT_TRY(parse_count(piece)));
    target = std::move(numbers);
    return {};
  };
}

}  // namespace triplepoint::flags
