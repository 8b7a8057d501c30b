// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/formats/yaml_document.h"

namespace triplepoint::formats {

/// JSON as the tree that YAML gives. Python's Infinity and NaN are read as numbers; a key has a
/// line where it stands in one line of the file only.
Result<YamlNode> parse_json_tree(std::string_view text, const std::string& name);

/// TOML as that tree.
Result<YamlNode> parse_toml_tree(std::string_view text, const std::string& name);

/// The value of a key of a table, or null.
const YamlNode* find_key(const YamlNode& table, std::string_view key);

}  // namespace triplepoint::formats
