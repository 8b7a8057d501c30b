// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/arguments.h"

#include "triplepoint/base/files.h"
#include "triplepoint/base/lists.h"
#include "triplepoint/base/text.h"

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

Arguments& Arguments::without(std::string_view name) {
  std::erase_if(*this, [name](const Argument& each) { return has_name(each, name); });
  return *this;
}

bool has_name(const Argument& argument, std::string_view name) {
  const std::vector<std::string> names = split(argument.names, ',');
  return holds(names, name);
}

namespace {

Result<void> store_choice(const Argument& argument, std::string_view text) {
  // As a path, "" is the current folder: the output of `-o "$UNSET"` would go there.
  if (argument.words != Words::none && text.empty())
    return error("the name is empty (is a shell variable not set?); give a name");
  const std::vector<std::string>& choices = argument.choices;
  if (!choices.empty() && !holds(choices, text))
    return error("\"{}\" is no choice{}; {}", text,
                 path_exists(Path(text)) ? " (it is a path; a choice comes before it)" : "",
                 did_you_mean(text, choices));
  return argument.store(text);
}

}  // namespace

Result<void> store_text(const Argument& argument, std::string_view text) {
  const Result<void> stored = store_choice(argument, text);
  if (stored) return {};
  return error("{}: {}", argument.names.substr(0, argument.names.find(',')), stored.error().what);
}

}  // namespace triplepoint::flags
