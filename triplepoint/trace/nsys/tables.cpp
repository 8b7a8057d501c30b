// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/nsys/tables.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::trace::nsys {

namespace {

/// Names come from a file of anybody's.
bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

}  // namespace

Result<Tables> Tables::open(run::Database database) {
  Tables tables(std::move(database));
  TPT_TRY(tables.list_columns());
  TPT_TRY(tables.load_strings());
  return tables;
}

Result<void> Tables::list_columns() {
  run::Statement names =
      TPT_TRY(database_.prepare("SELECT name FROM sqlite_master WHERE type = 'table'"));
  std::vector<std::string> all;
  while (TPT_TRY(names.next()))
    if (std::string name = names.text(0); is_plain(name)) all.push_back(std::move(name));
  for (const std::string& name : all) {
    run::Statement info =
        TPT_TRY(database_.prepare(fmt::format("PRAGMA table_info({})", name).c_str()));
    while (TPT_TRY(info.next()))
      columns_[name].push_back(info.text(1));
  }
  return {};
}

Result<void> Tables::load_strings() {
  return for_each("StringIds", {"id", "value"}, 2,
                  [&](const Row& row) { strings_.emplace(row.integer_or(0, -1), row.text(1)); });
}

bool Tables::has(const std::string& table, const std::string& column) const {
  const auto found = columns_.find(table);
  return found != columns_.end() &&
         std::find(found->second.begin(), found->second.end(), column) != found->second.end();
}

Result<void> Tables::for_each(const std::string& table, std::initializer_list<const char*> columns,
                              size_t required, const std::function<void(const Row&)>& visit) const {
  std::vector<std::string> present;
  std::vector<int> places;
  for (const char* column : columns) {
    const bool known = has(table, column);
    if (!known && places.size() < required) return {};
    places.push_back(known ? static_cast<int>(present.size()) : -1);
    if (known) present.push_back(fmt::format("\"{}\"", column));
  }
  const std::string sql = fmt::format("SELECT {} FROM {}", fmt::join(present, ","), table);
  run::Statement statement = TPT_TRY(database_.prepare(sql.c_str()));
  while (TPT_TRY(statement.next()))
    visit(Row(statement, places));
  return {};
}

std::string Tables::string(const Row& row, size_t column) const {
  const auto id = row.integer(column);
  if (!id) return {};
  const auto found = strings_.find(*id);
  return found != strings_.end() ? found->second : row.text(column);
}

}  // namespace triplepoint::trace::nsys
