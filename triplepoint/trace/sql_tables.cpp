// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/sql_tables.h"

#include "triplepoint/base/lists.h"
#include "triplepoint/base/text.h"

namespace triplepoint::trace {

namespace {

/// Names come from an untrusted file.
bool is_plain(const std::string& name) {
  return std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

}  // namespace

Result<Tables> Tables::open(run::Database database, const char* strings, const char* value) {
  Tables tables(std::move(database), strings, value);
  TPT_TRY(tables.list_columns());
  TPT_TRY(tables.read_strings());
  return tables;
}

Result<void> Tables::read_strings() {
  strings_.clear();
  return for_each(strings_table_, {"id", value_.c_str()}, 2,
                  [&](const Row& row) { strings_.emplace(row.integer_or(0, -1), row.text(1)); });
}

Result<void> Tables::choose(const std::string& process) {
  process_ = "_" + process;
  return read_strings();
}

std::vector<std::string> Tables::processes(const std::string& table) const {
  std::vector<std::string> ids;
  for (const auto& [name, columns] : columns_) {
    if (name.size() <= table.size() + 1 || !name.starts_with(table) || name[table.size()] != '_')
      continue;
    std::string id = name.substr(table.size() + 1);
    // Of hexadecimal digits in five groups.
    if (id.size() >= 32 && id.find_first_not_of("0123456789abcdefABCDEF_") == id.npos)
      ids.push_back(std::move(id));
  }
  std::ranges::sort(ids);
  return ids;
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
      columns_[name].push_back(lower_case(info.text(1)));  // as SQL compares them
  }
  return {};
}

std::vector<std::string> Tables::named(const std::string& table) const {
  if (columns_.contains(table + process_) && !process_.empty()) return {table + process_};
  int64_t newest = columns_.contains(table) ? 0 : -1;
  for (const auto& [name, columns] : columns_)
    if (name.starts_with(table + "_V"))
      newest = std::max(newest, whole_number(name.substr(table.size() + 2)).value_or(-1));
  if (newest < 0) return {};
  return {newest == 0 ? table : fmt::format("{}_V{}", table, newest)};
}

std::vector<std::string> Tables::all() const {
  std::vector<std::string> names;
  for (const auto& [name, columns] : columns_)
    names.push_back(name);
  std::ranges::sort(names);
  return names;
}

bool Tables::has(const std::string& table, const std::string& column) const {
  const auto found = columns_.find(table);
  return found != columns_.end() && holds(found->second, lower_case(column));
}

Result<void> Tables::for_each(const std::string& table, std::initializer_list<const char*> columns,
                              size_t required, const std::function<void(const Row&)>& visit) const {
  for (const std::string& name : named(table)) {
    std::vector<std::string> present;
    std::vector<int> places;
    for (const char* column : columns) {
      const bool known = has(name, column);
      places.push_back(known ? static_cast<int>(present.size()) : -1);
      if (known) present.push_back(fmt::format("\"{}\"", column));
    }
    const auto lacking =
        std::find(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(required), -1) -
        places.begin();
    if (lacking < static_cast<std::ptrdiff_t>(required)) {
      if (std::string_view(*columns.begin()) == "start")
        unread_.insert(fmt::format("the table {} has no column \"{}\": nothing of it is read", name,
                                   columns.begin()[lacking]));
      continue;
    }
    const std::string sql = fmt::format("SELECT {} FROM {}", fmt::join(present, ","), name);
    run::Statement statement = TPT_TRY(database_.prepare(sql.c_str()));
    while (TPT_TRY(statement.next()))
      visit(Row(statement, places));
  }
  return {};
}

std::string Tables::string(const Row& row, size_t column) const {
  const auto id = row.integer(column);
  if (!id) return {};
  return value_at(strings_, *id).value_or(row.text(column));
}

}  // namespace triplepoint::trace
