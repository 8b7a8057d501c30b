// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::formats {

struct YamlEntry;

/// One place in a YAML file: nothing, a word, a list or a table; with the line it begins on.
struct YamlNode {
  enum class Kind { null, scalar, list, table };
  Kind kind = Kind::null;
  int line = 0;                    // counted from 1
  std::string scalar;              // as written, without quotes
  bool quoted = false;             // "null" in quotes is a word
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a table, in the order of the file
  int next_document = 0;           // of the root: where another document begins
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

/// Reads the first document of a YAML file, and notes where another with something in it begins.
///
/// Keys must be plain words and occur once per table. Aliases are copied; a file that grows beyond
/// a hundred thousand nodes by them, is nested deeper than 64 levels or is larger than 4 MiB is an
/// error: no configuration is.
Result<YamlNode> parse_yaml(std::string_view text, std::string_view name);

}  // namespace triplepoint::formats
