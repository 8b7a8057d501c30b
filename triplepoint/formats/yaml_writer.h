// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::formats {

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
