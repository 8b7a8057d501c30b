// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/arguments.h"

#include <utility>

namespace triplepoint::flags {

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

}  // namespace triplepoint::flags
