// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/key_table.h"

#include <algorithm>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

namespace triplepoint::formats {

using spec::TomlValue;

std::string text_at(const TomlValue& table, std::string_view key) {
  const TomlValue* value = table.find(key);
  return value != nullptr ? value->text : std::string();
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (std::size_t at = 0; at <= text.size(); ++at)
    if (matches_pattern(pattern, text.substr(at))) return true;
  return false;
}

std::vector<std::string> words_at(const TomlValue& table, std::string_view key) {
  std::vector<std::string> words = split(text_at(table, key), ' ');
  std::erase(words, std::string());
  return words;
}

Result<KeyTable> KeyTable::load(const spec::Library& library, const std::string& name) {
  const std::string path = (Path(library.root) / "readers" / (name + ".toml")).string();
  return of(TPT_TRY(spec::parse_toml(TPT_TRY(read_file(path)), path)));
}

KeyTable KeyTable::of(TomlValue file) {
  KeyTable table;
  table.file_ = std::move(file);
  for (const char* effect : {"without_effect", "told", "refused"}) {
    const TomlValue* groups = table.file_.find(effect);
    if (groups == nullptr) continue;
    for (const TomlValue& group : groups->items)
      table.groups_[effect].push_back({words_at(group, "keys"), text_at(group, "why"),
                                       text_at(group, "instead"), text_at(group, "off_where"),
                                       text_at(group, "neutral"),
                                       group.find("any_value") != nullptr});
  }
  return table;
}

const KeyTable::Group* KeyTable::find(std::string_view effect, std::string_view key,
                                      bool size) const {
  const auto groups = groups_.find(effect);
  if (groups == groups_.end()) return nullptr;
  const TomlValue* globs = file_.find("globs_pass_sizes");
  const bool strict = size && globs != nullptr && !globs->truth;
  const auto fits = [&](const Group& group, const std::string& pattern, std::string_view name) {
    const bool glob = pattern.find('*') < pattern.size() - (pattern.ends_with(".*") ? 1 : 0);
    if (strict && glob && !group.any_value) return false;
    return matches_pattern(pattern, name) ||
           (pattern.ends_with(".*") && pattern.substr(0, pattern.size() - 2) == name);
  };
  // What is known of a section is known of its keys.
  for (std::string_view name = key;; name = name.substr(0, name.rfind('.'))) {
    for (const Group& group : groups->second)
      for (const std::string& pattern : group.keys)
        if (fits(group, pattern, name)) return &group;
    if (!contains(name, '.')) return nullptr;
  }
}

std::vector<std::string> KeyTable::plain_keys() const {
  std::vector<std::string> keys;
  for (const auto& [effect, groups] : groups_)
    for (const Group& group : groups)
      std::ranges::copy_if(group.keys, std::back_inserter(keys),
                           [](const std::string& key) { return !contains(key, '*'); });
  return keys;
}

}  // namespace triplepoint::formats
