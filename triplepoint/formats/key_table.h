// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::formats {

/// What is known of the keys of a format that no reader asks for: data/readers/NAME.toml. A key is
/// without effect on work, memory and layout, or its effect is told, or it is refused where it is
/// on. Patterns may hold * for any letters.
class KeyTable {
 public:
  static Result<KeyTable> load(const spec::Library& library, const std::string& name);
  /// Of a table with groups in it.
  static KeyTable of(spec::TomlValue table);

  struct Group {
    std::vector<std::string> keys;
    std::string why, instead;
    std::string off_where;   // "use_x": without effect where that switch is off
    std::string neutral;     // a value that changes nothing: "1" of a factor
    bool any_value = false;  // its patterns pass sizes as well
  };
  /// `size`: whether the value may be one. Where the file says globs_pass_sizes = false, a pattern
  /// that is no section's ("vision_config.*") then knows no key.
  const Group* without_effect(std::string_view key, bool size = false) const {
    return find("without_effect", key, size);
  }
  const Group* told(std::string_view key, bool size = false) const {
    return find("told", key, size);
  }
  const Group* refused(std::string_view key) const { return find("refused", key); }
  /// Of all groups, those that name one key: for suggestions.
  std::vector<std::string> plain_keys() const;
  /// The rest of the file.
  const spec::TomlValue& file() const { return file_; }

 private:
  const Group* find(std::string_view effect, std::string_view key, bool size = false) const;

  spec::TomlValue file_;
  std::map<std::string, std::vector<Group>, std::less<>> groups_;
};

/// Whether `text` has the form of `pattern`, whose * stand for any letters.
bool matches_pattern(std::string_view pattern, std::string_view text);

/// A text of the table; empty where it lacks the key.
std::string text_at(const spec::TomlValue& table, std::string_view key);
/// The words of a text of the table: "a b c".
std::vector<std::string> words_at(const spec::TomlValue& table, std::string_view key);

}  // namespace triplepoint::formats
