// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/config_tree.h"

#include <algorithm>
#include <map>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::formats {
namespace {

/// Python writes numbers that JSON lacks; each becomes one of the same length.
std::string with_json_numbers(std::string_view text) {
  std::string all(text);
  bool quoted = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == '\\' && quoted)
      ++i;
    else if (all[i] == '"')
      quoted = !quoted;
    else if (!quoted && all.compare(i, 8, "Infinity") == 0)
      all.replace(i, 8, "1e308   ");
    else if (!quoted && all.compare(i, 3, "NaN") == 0)
      all.replace(i, 3, "0e0");
  }
  return all;
}

/// Lines of keys that stand in one line only.
std::map<std::string, int, std::less<>> lines_of_keys(std::string_view text) {
  std::map<std::string, int, std::less<>> lines;
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    if (text[i] != '"') continue;
    const std::size_t end = text.find('"', i + 1);
    if (end == text.npos) break;
    const auto [place, is_new] = lines.emplace(text.substr(i + 1, end - i - 1), line);
    if (!is_new) place->second = 0;
    i = end;
  }
  return lines;
}

YamlNode node_of(const Json& json, const std::map<std::string, int, std::less<>>& lines, int line) {
  YamlNode node;
  node.line = line;
  if (json.is_object()) {
    node.kind = YamlNode::Kind::table;
    for (const auto& [key, value] : json.items()) {
      const auto place = lines.find(key);
      node.entries.push_back(
          {key, node_of(value, lines, place == lines.end() ? 0 : place->second)});
    }
  } else if (json.is_array()) {
    node.kind = YamlNode::Kind::list;
    for (const Json& item : json)
      node.items.push_back(node_of(item, lines, line));
  } else if (!json.is_null()) {
    node.kind = YamlNode::Kind::scalar;
    node.quoted = json.is_string();
    node.scalar = json.is_string() ? json.get<std::string>() : json_text(json, -1);
  }
  return node;
}

YamlNode node_of(const spec::TomlValue& value) {
  using Kind = spec::TomlValue::Kind;
  YamlNode node;
  node.line = value.line;
  node.kind = value.is(Kind::table)   ? YamlNode::Kind::table
              : value.is(Kind::array) ? YamlNode::Kind::list
                                      : YamlNode::Kind::scalar;
  for (const spec::TomlEntry& entry : value.entries)
    node.entries.push_back({entry.key, node_of(entry.value)});
  for (const spec::TomlValue& item : value.items)
    node.items.push_back(node_of(item));
  node.quoted = value.is(Kind::text);
  if (value.is(Kind::text)) node.scalar = value.text;
  if (value.is(Kind::truth)) node.scalar = value.truth ? "true" : "false";
  if (value.is(Kind::integer)) node.scalar = fmt::format("{}", value.integer);
  if (value.is(Kind::number)) node.scalar = fmt::format("{}", value.number);
  return node;
}

}  // namespace

Result<YamlNode> parse_json_tree(std::string_view text, const std::string& name) {
  const Json json = TPT_TRY(parse_json(with_json_numbers(text), name));
  return node_of(json, lines_of_keys(text), 0);
}

Result<YamlNode> parse_toml_tree(std::string_view text, const std::string& name) {
  return node_of(TPT_TRY(spec::parse_toml(text, name)));
}

const YamlNode* find_key(const YamlNode& table, std::string_view key) {
  const auto found = std::ranges::find(table.entries, key, &YamlEntry::key);
  return found == table.entries.end() ? nullptr : &found->value;
}

}  // namespace triplepoint::formats
