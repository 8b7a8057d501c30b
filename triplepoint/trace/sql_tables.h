// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
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
  std::vector<std::string> all() const;
  /// Visits the rows of a table in the order they lie; nothing if there is none, or if it lacks a
  /// column of `required`. Later versions of a schema add _V2 to the name, the newest of which is
  /// read; rocprofv3 adds the id of each process, all of which are.
  Result<void> for_each(const std::string& table, std::initializer_list<const char*> columns,
                        size_t required, const std::function<void(const Row&)>& visit) const;
  /// What a column refers to: an id of the table of texts, or the text itself.
  std::string string(const Row&, size_t column) const;

 private:
  explicit Tables(run::Database database) : database_(std::move(database)) {}
  Result<void> list_columns();
  std::vector<std::string> named(const std::string& table) const;
  bool has(const std::string& table, const std::string& column) const;

  run::Database database_;
  std::unordered_map<std::string, std::vector<std::string>> columns_;
  std::unordered_map<int64_t, std::string> strings_;
};

}  // namespace triplepoint::trace
