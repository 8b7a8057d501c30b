// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/toml_tree.h"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include <toml++/toml.h>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

struct Converter {
  const std::string& file;
  std::optional<Error> problem;

  TomlValue table(const toml::table& source) {
    TomlValue result = empty(Kind::table, source);
    for (const auto& [key, node] : source) {
      result.entries.push_back({std::string(key.str()), value(node)});
      result.entries.back().value.line = static_cast<int>(key.source().begin.line);
    }
    // The parser sorts by name; a file is written (and shown again) in the order of its author.
    std::ranges::stable_sort(result.entries, [](const TomlEntry& a, const TomlEntry& b) {
      return a.value.line < b.value.line;
    });
    return result;
  }

  TomlValue array(const toml::array& source) {
    TomlValue result = empty(Kind::array, source);
    for (const toml::node& node : source)
      result.items.push_back(value(node));
    return result;
  }

  TomlValue value(const toml::node& node) {
    if (const auto* as_table = node.as_table()) return table(*as_table);
    if (const auto* as_array = node.as_array()) return array(*as_array);
    TomlValue result = empty(Kind::text, node);
    if (const auto* text = node.as_string())
      result.text = text->get();
    else if (const auto* integer = node.as_integer())
      result.kind = Kind::integer, result.integer = integer->get();
    else if (const auto* number = node.as_floating_point())
      result.kind = Kind::number, result.number = number->get();
    else if (const auto* truth = node.as_boolean())
      result.kind = Kind::truth, result.truth = truth->get();
    else
      refuse_date(result.line);
    return result;
  }

 private:
  static TomlValue empty(Kind kind, const toml::node& node) {
    TomlValue result;
    result.kind = kind;
    result.line = static_cast<int>(node.source().begin.line);
    return result;
  }

  void refuse_date(int line) {
    if (problem) return;
    problem = Error{
        fmt::format("{}:{}: a date or a time is not allowed (no key takes one); write a text in "
                    "quotes or a quantity as in \"10 min\"",
                    file, line)};
  }
};

constexpr int most_key_parts = 64;

/// Skips a string of TOML, whose opening quote stands at `at`; returns where it ends.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string triple(3, quote);
  const bool is_long = text.substr(at, 3) == triple;
  for (std::size_t i = at + (is_long ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\')
      ++i;
    else if (is_long ? text.substr(i, 3) == triple : text[i] == quote || text[i] == '\n')
      return i + (is_long ? 2 : 0);
  }
  return text.size();
}

/// The line of a key with more parts than the parser, which calls itself for each, may be given; 0
/// if there is none.
int line_of_deep_key(std::string_view text) {
  int line = 1, dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = end_of_string(text, i);
      line += static_cast<int>(std::ranges::count(text.substr(i, end - i), '\n'));
      i = end;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      if (++dots >= most_key_parts) return line;
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']') {
      dots = 0;
      line += c == '\n' ? 1 : 0;
    }
  }
  return 0;
}

Result<TomlValue> parse(std::string_view text, const std::string& file) {
  if (const int line = line_of_deep_key(text); line > 0)
    return error("{}:{}: a key of more than {} parts (no file needs one); remove dots", file, line,
                 most_key_parts);
  Converter converter{file, std::nullopt};
  TomlValue tree;
  try {  // Debian's library throws; no exception leaves this file
    tree = converter.table(toml::parse(text));
  } catch (const toml::parse_error& problem) {
    return error("{}:{}: {} (this is not TOML); check the quotes and brackets before it", file,
                 problem.source().begin.line, problem.description());
  }
  if (converter.problem) return tl::unexpected(*converter.problem);
  return tree;
}

}  // namespace

const TomlValue* TomlValue::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &TomlEntry::key);
  return found == entries.end() ? nullptr : &found->value;
}

TomlValue* TomlValue::find(std::string_view key) {
  return const_cast<TomlValue*>(std::as_const(*this).find(key));
}

tl::unexpected<Error> error_at(const std::string& file, int line, const std::string& what) {
  return error("{}:{}: {}", file, line, what);
}

Result<TomlValue> parse_toml(std::string_view text, const std::string& file) {
  // Every job asks for the same files of the library; reading them was half of a step's prediction.
  constexpr std::size_t most_kept = 64;
  using Kept = std::pair<std::string, TomlValue>;
  thread_local std::list<Kept> latest;
  const auto found = std::ranges::find(latest, text, &Kept::first);
  if (found != latest.end()) {
    latest.splice(latest.begin(), latest, found);
    return found->second;
  }
  latest.emplace_front(text, TPT_TRY(parse(text, file)));
  if (latest.size() > most_kept) latest.pop_back();
  return latest.front().second;
}

std::string_view describe(Kind kind) {
  return word_for<Kind::truth>(
      {"a table", "a list", "a text", "a whole number", "a number", "true or false"}, kind);
}

}  // namespace triplepoint::spec
