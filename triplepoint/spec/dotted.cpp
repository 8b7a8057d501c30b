// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/dotted.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/fields.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

template <class Number>
std::optional<Number> whole_text_as(std::string_view text) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

TomlValue text_value(std::string_view text, int line) {
  TomlValue value;
  value.kind = Kind::text;
  value.line = line;
  value.text = text;
  return value;
}

TomlValue list_value(std::string_view inside, int line) {
  TomlValue list;
  list.kind = Kind::array;
  list.line = line;
  while (!trimmed(inside).empty()) {
    const std::size_t comma = std::min(inside.find(','), inside.size());
    std::string_view item = trimmed(inside.substr(0, comma));
    const bool quoted = item.size() >= 2 && item.front() == '"' && item.back() == '"';
    list.items.push_back(quoted ? text_value(item.substr(1, item.size() - 2), line)
                                : cell_value(item, line));
    inside.remove_prefix(std::min(comma + 1, inside.size()));
  }
  return list;
}

TomlValue* find(TomlValue& table, std::string_view key) {
  for (TomlEntry& entry : table.entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

void set_here(TomlValue& table, std::string_view key, TomlValue value) {
  TomlValue* const known = find(table, key);
  if (known == nullptr)
    table.entries.push_back({std::string(key), std::move(value)});
  else if (known->is(Kind::table))
    set_here(*known, "base", std::move(value));
  else
    *known = std::move(value);
}

/// The table of this key; a name that stands there becomes its base.
TomlValue& table_at(TomlValue& parent, std::string_view key, int line) {
  TomlValue* known = find(parent, key);
  if (known == nullptr) known = &parent.entries.emplace_back(std::string(key), TomlValue{}).value;
  if (!known->is(Kind::table)) {
    TomlValue table;
    table.entries.push_back({"base", std::move(*known)});
    *known = std::move(table);
  }
  known->line = line;
  return *known;
}

class KeyLister {
 public:
  KeyLister(std::string prefix, std::vector<std::string>& keys)
      : prefix_(std::move(prefix)), keys_(keys) {}

  template <class T>
  void operator()(std::string_view key, T& member, Need = Need::optional) {
    const std::string dotted = prefix_ + std::string(key);
    keys_.push_back(dotted);
    list_inside(dotted, member);
  }

 private:
  template <class T>
  void list_inside(const std::string& dotted, T& member) {
    KeyLister inner(dotted + ".", keys_);
    if constexpr (requires { visit_fields(inner, member); }) visit_fields(inner, member);
  }
  template <class T>
  void list_inside(const std::string& dotted, std::optional<T>&) {
    T inside{};
    list_inside(dotted, inside);
  }

  std::string prefix_;
  std::vector<std::string>& keys_;
};

}  // namespace

TomlValue cell_value(std::string_view cell, int line) {
  const std::string_view text = trimmed(cell);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    return list_value(text.substr(1, text.size() - 2), line);
  TomlValue value = text_value(text, line);
  if (text == "true" || text == "false") {
    value.kind = Kind::truth;
    value.truth = text == "true";
  } else if (const auto integer = whole_text_as<int64_t>(text)) {
    value.kind = Kind::integer;
    value.integer = *integer;
  } else if (const auto number = whole_text_as<double>(text); number && std::isfinite(*number)) {
    value.kind = Kind::number;
    value.number = *number;
  }
  return value;
}

void set_dotted(TomlValue& root, std::string_view key, TomlValue value) {
  TomlValue* table = &root;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    table = &table_at(*table, key.substr(0, dot), value.line);
    key.remove_prefix(dot + 1);
  }
  set_here(*table, key, std::move(value));
}

std::vector<std::string> job_keys() {
  std::vector<std::string> keys;
  KeyLister lister("", keys);
  Job job;
  visit_fields(lister, job);
  return keys;
}

}  // namespace triplepoint::spec
