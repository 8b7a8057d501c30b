// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/store/store_database.h"

namespace triplepoint::trace {

/// One row of a query; columns by their place in the list that was asked for.
class Row {
 public:
  Row(const run::Statement& statement, const std::vector<int>& places)
      : statement_(statement), places_(places) {}
  std::optional<int64_t> integer(size_t column) const {
    if (places_[column] < 0) return std::nullopt;
    return statement_.integer_or_nothing(places_[column]);
  }
  int64_t integer_or(size_t column, int64_t otherwise) const {
    return integer(column).value_or(otherwise);
  }
  std::string text(size_t column) const {
    return places_[column] < 0 ? std::string() : statement_.text(places_[column]);
  }

 private:
  const run::Statement& statement_;
  const std::vector<int>& places_;  // in the statement; -1: the table has no such column
};

/// The tables of a profiler's database, any of which may be missing.
class Tables {
 public:
  /// `strings`: the table of texts, with their ids and values in these columns.
  static Result<Tables> open(run::Database, const char* strings, const char* value);

  bool has(const std::string& table) const { return !named(table).empty(); }
  /// The ids behind a table's name, of the processes that share the file.
  std::vector<std::string> processes(const std::string& table) const;
  /// Only the tables of this one are read from now on, its texts among them.
  Result<void> choose(const std::string& process);
  std::vector<std::string> all() const;
  /// Sentences of those with spans that lack a begin or an end.
  const std::set<std::string>& unread() const { return unread_; }
  /// Visits the rows of a table in the order they lie; nothing if there is none, or if it lacks a
  /// column of `required`. Later versions of a schema add _V2 to the name, the newest of which is
  /// read; rocprofv3 adds the id of each process.
  Result<void> for_each(const std::string& table, std::initializer_list<const char*> columns,
                        size_t required, const std::function<void(const Row&)>& visit) const;
  /// What a column refers to: an id of the table of texts, or the text itself.
  std::string string(const Row&, size_t column) const;

 private:
  Tables(run::Database database, std::string strings, std::string value)
      : strings_table_(std::move(strings)),
        value_(std::move(value)),
        database_(std::move(database)) {}
  Result<void> read_strings();
  Result<void> list_columns();
  std::vector<std::string> named(const std::string& table) const;
  bool has(const std::string& table, const std::string& column) const;

  std::string strings_table_, value_, process_;
  run::Database database_;
  std::unordered_map<std::string, std::vector<std::string>> columns_;
  std::unordered_map<int64_t, std::string> strings_;
  mutable std::set<std::string> unread_;
};

/// A process with one record beside others with ten and more is a broken id, no rank: it is erased
/// from `processes`.
void drop_strays(auto& processes, const std::map<int64_t, int64_t>& records) {
  int64_t most = 0;
  for (const auto& [process, count] : records)
    most = std::max(most, count);
  for (const auto& [process, count] : records)
    if (count == 1 && most >= 10) processes.erase(process);
}

}  // namespace triplepoint::trace
