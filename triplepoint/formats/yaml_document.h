// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

/// Reads the first document of a YAML file.
///
/// Keys must be plain words and occur once per table. Aliases are copied; a file that grows beyond
/// a hundred thousand nodes by them, is nested deeper than 64 levels or is larger than 4 MiB is an
/// error: no configuration is.
Result<YamlNode> parse_yaml(std::string_view text, std::string_view name);

/// Writes YAML tables in block style; "model.optim.name" makes the tables it needs. Keys keep the
/// order in which they first came.
class YamlWriter {
 public:
  void text(std::string_view key, std::string_view value);  // quoted where YAML would read it else
  void count(std::string_view key, int64_t value);
  void number(std::string_view key, double value);  // shortest form that reads back the same
  void boolean(std::string_view key, bool value);
  void null(std::string_view key);
  void list(std::string_view key, const std::vector<std::string>& words);

  std::string str() const;

 private:
  struct Node {
    std::string name;
    std::string value;  // of a leaf, as written
    std::vector<Node> entries;
  };
  void put(std::string_view key, std::string value);
  static void write(const Node& node, int indent, std::string& into);

  Node root_;
};

}  // namespace triplepoint::formats
