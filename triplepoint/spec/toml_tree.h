// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::spec {

struct TomlEntry;

/// What a TOML file says, with the line each value stands on. Only toml_tree.cpp knows the parser.
struct TomlValue {
  enum class Kind { table, array, text, integer, number, truth };
  Kind kind = Kind::table;
  int line = 0;
  std::string text;
  int64_t integer = 0;
  double number = 0;
  bool truth = false;
  std::vector<TomlValue> items;    // array
  std::vector<TomlEntry> entries;  // table, in the order of the file

  bool is(Kind other) const { return kind == other; }
  const TomlValue* find(std::string_view key) const;
  TomlValue* find(std::string_view key);
};

struct TomlEntry {
  std::string key;
  TomlValue value;
};

/// Reads TOML 1.0. `file` is only named in messages. Dates and times are refused: no input has one.
Result<TomlValue> parse_toml(std::string_view text, const std::string& file);

/// What a value is, for messages: "a table", "a text".
std::string_view describe(TomlValue::Kind);

/// "file:line: what".
tl::unexpected<Error> error_at(const std::string& file, int line, const std::string& what);

}  // namespace triplepoint::spec
