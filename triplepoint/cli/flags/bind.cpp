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
  return into(target, parse_count);
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

Arguments& Arguments::group(std::string title) {
  group_ = std::move(title);
  return *this;
}

Arguments& Arguments::word(std::string name, std::string help, Store store, Accepts accepts) {
  return flag(std::move(name), "", std::move(help), std::move(store), std::move(accepts));
}

Arguments& Arguments::flag(std::string names, std::string value, std::string help, Store store,
                           Accepts accepts) {
  return add({std::move(accepts), std::move(names), std::move(value), std::move(help), group_,
              std::move(store)});
}

Arguments& Arguments::toggle(std::string names, std::string help, bool& target) {
  return flag(std::move(names), "", std::move(help), [&target](std::string_view) -> Result<void> {
    target = true;
    return {};
  });
}

Arguments& Arguments::add(Argument argument) {
  if (argument.group.empty()) argument.group = group_;
  push_back(std::move(argument));
  return *this;
}

Arguments& Arguments::add(Arguments others) {
  for (Argument& argument : others)
    push_back(std::move(argument));
  return *this;
}

}  // namespace triplepoint::cli
