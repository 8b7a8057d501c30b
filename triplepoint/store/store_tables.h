// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/run/timeline.h"

#include "triplepoint/store/chunk_codec.h"
#include "triplepoint/store/fields.h"
#include "triplepoint/store/store_database.h"

namespace triplepoint::run {

/// "a.run is damaged (WHY); try the copy it was made from"
tl::unexpected<Error> damaged(const Database&, std::string_view why);

/// Which numbers: the part of the run ("span", "instance", "piece_span", "axis", "series"), which
/// one of its kind, and the column's name.
struct ColumnKey {
  std::string_view part;
  int64_t owner = 0;
  std::string_view name;
};

/// Writes columns as chunks.
class ColumnWriter {
 public:
  static Result<ColumnWriter> create(const Database&);

  Result<bool> write(const ColumnKey&, std::span<const int64_t> values);
  Result<bool> write(const ColumnKey&, std::span<const double> values);
  Result<bool> write(const ColumnKey& key, const Chunk& chunk) { return write_chunk(key, chunk); }

 private:
  explicit ColumnWriter(Statement insert) : insert_(std::move(insert)) {}
  template <class Number>
  Result<bool> write_chunks(const ColumnKey&, std::span<const Number> values);
  Result<bool> write_chunk(const ColumnKey&, const Chunk&);

  Statement insert_;
  ChunkEncoder encoder_;
};

/// Reads them back. A column that is not there has no values.
class ColumnReader {
 public:
  static Result<ColumnReader> create(const Database&);

  /// Of int64_t or double.
  template <class Number>
  Result<std::vector<Number>> read(const ColumnKey&);

 private:
  ColumnReader(Statement select, std::string name)
      : select_(std::move(select)), file_(std::move(name)) {}

  Statement select_;  // one chunk by its id
  std::string file_;
  std::unordered_map<std::string, std::vector<int64_t>> chunks_;  // ids, by key, in order
};

inline tl::unexpected<Error> bad_column(std::string_view part, const char* name) {
  return error(
      "the run file is damaged (column \"{} {}\" does not fit to the others); try the "
      "copy it was made from",
      part, name);
}

/// Writes one column per field.
template <class Item>
Result<void> write_items(ColumnWriter& writer, std::string_view part,
                         const std::vector<Item>& items) {
  Result<bool> written = true;
  for_each_field<Item>([&](const auto& field) {
    using Value = std::decay_t<decltype(field.of(std::declval<Item>()))>;
    std::vector<std::conditional_t<IsReal<Value>, double, int64_t>> column;
    column.reserve(items.size());
    for (const Item& item : items)
      if constexpr (IsReal<Value>)
        column.push_back(real_of(field.of(item)));
      else
        column.push_back(integer_of(field.of(item)));
    if (written) written = writer.write({part, 0, field.name}, std::span(std::as_const(column)));
  });
  TPT_TRY(std::move(written));
  return {};
}

/// Reads a column into the field; the first one says how many items there are.
template <class Item, class FieldOfIt>
Result<void> read_field(ColumnReader& reader, std::string_view part, const FieldOfIt& field,
                        std::optional<std::vector<Item>>& items) {
  using Value = std::decay_t<decltype(field.of(std::declval<Item>()))>;
  using Number = std::conditional_t<IsReal<Value>, double, int64_t>;
  const std::vector<Number> column = TPT_TRY(reader.read<Number>({part, 0, field.name}));
  if (!items) items.emplace(column.size());
  if (column.size() != items->size()) return bad_column(part, field.name);
  for (size_t i = 0; i < items->size(); ++i)
    if (!field.set((*items)[i], [&](auto& target) { return set_number(target, column[i]); }))
      return bad_column(part, field.name);
  return {};
}

template <class Item>
Result<std::vector<Item>> read_items(ColumnReader& reader, std::string_view part) {
  std::optional<std::vector<Item>> items;
  Result<void> read;
  for_each_field<Item>([&](const auto& field) {
    if (read) read = read_field<Item>(reader, part, field, items);
  });
  TPT_TRY(std::move(read));
  return *std::move(items);
}

/// Binds the next parameter; what is absent becomes NULL.
template <class Value>
void bind_value(Statement& statement, const Value& value) {
  if constexpr (std::is_convertible_v<Value, std::string_view>)
    statement.bind(std::string_view(value));
  else if constexpr (IsReal<Value>)
    statement.bind(real_of(value));
  else
    statement.bind(integer_of(value));
}
template <class Value>
void bind_value(Statement& statement, const std::optional<Value>& value) {
  if (value)
    bind_value(statement, *value);
  else
    statement.bind(std::optional<int64_t>());
}

template <class... Values>
Result<bool> insert_row(Statement& insert, const Values&... values) {
  (bind_value(insert, values), ...);
  return insert.run();
}

/// The value of a cell; NULL leaves the target as it is. False if it cannot be.
template <class Value>
bool take_value(const Statement& row, int column, Value& target) {
  if (row.is_null(column)) return true;
  if constexpr (std::is_same_v<Value, std::string>) {
    target = row.text(column);
    return true;
  } else if constexpr (IsReal<Value>) {
    return set_number(target, row.real(column));
  } else {
    return set_number(target, row.integer(column));
  }
}
template <class Value>
bool take_value(const Statement& row, int column, std::optional<Value>& target) {
  return row.is_null(column) || take_value(row, column, target.emplace());
}

/// Of a table; none of one that is not there.
Result<std::set<std::string>> columns_of(const Database&, const char* table);

/// Writes one row per item, its place in the column `key`; null: nowhere.
template <class Item>
Result<void> write_rows(const Database& database, const char* table, const char* key,
                        const std::vector<Item>& items) {
  std::string names = key != nullptr ? key : "", marks = key != nullptr ? "?" : "";
  for_each_field<Item>([&](const auto& field) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", field.name);
    marks += marks.empty() ? "?" : ", ?";
  });
  const std::string sql = fmt::format("INSERT INTO {}({}) VALUES({})", table, names, marks);
  Statement insert = TPT_TRY(database.prepare(sql.c_str()));
  for (size_t i = 0; i < items.size(); ++i) {
    if (key != nullptr) bind_value(insert, i);
    for_each_field<Item>([&](const auto& field) { bind_value(insert, field.of(items[i])); });
    TPT_TRY(insert.run());
  }
  return {};
}

/// Reads them back, in the order of the column `key`. Files of before may lack the table or columns
/// of it.
template <class Item>
Result<std::vector<Item>> read_rows(const Database& database, const char* table, const char* key) {
  std::vector<Item> items;
  const std::set<std::string> there = TPT_TRY(columns_of(database, table));
  if (there.empty()) return items;
  std::string names;
  for_each_field<Item>([&](const auto& field) {
    names += names.empty() ? "" : ", ";
    names += there.contains(field.name) ? field.name : "NULL";
  });
  const std::string sql = fmt::format("SELECT {} FROM {} ORDER BY {}", names, table, key);
  Statement row = TPT_TRY(database.prepare(sql.c_str()));
  while (TPT_TRY(row.next())) {
    Item& item = items.emplace_back();
    int column = 0;
    const char* wrong = nullptr;
    for_each_field<Item>([&](const auto& field) {
      const auto take = [&](auto& target) { return take_value(row, column, target); };
      if (!field.set(item, take)) wrong = field.name;
      ++column;
    });
    if (wrong != nullptr)
      return damaged(database, fmt::format("{} of {} holds what cannot be", wrong, table));
  }
  return items;
}

// The plain tables of a run file: everything but spans and series. Each pair is one table, or a few
// that belong together.

Result<bool> write_manifest(const Database&, const Run&);
Result<bool> read_manifest(const Database&, Run&);

// Devices and summaries; of many devices without the summaries' lists.
Result<bool> write_devices(const Database&, const Run&, Layout = Layout::of_each_device);
Result<bool> read_devices(const Database&, Run&);
// These lists: a column for each name, not-a-number where a device has no such entry.
Result<bool> write_share_columns(ColumnWriter&, const std::vector<DeviceSummary>&);
Result<bool> read_share_columns(const Database&, ColumnReader&, std::vector<DeviceSummary>&);

// Where series come from, names of nodes, clock anchors. Runs of before have none.
Result<bool> write_sources(const Database&, const Run&);
Result<bool> read_sources(const Database&, Run&);

Result<bool> write_steps(const Database&, const Run&);  // steps, memory, waits for cores
Result<bool> read_steps(const Database&, Run&);

// Who holds a step up. Runs of before have none.
Result<bool> write_bottlenecks(const Database&, const Run&);
Result<bool> read_bottlenecks(const Database&, Run&);

// Spans, patterns, instances and series as columns of chunks, with the plain tables that describe
// them.

Result<bool> write_timeline(const Database&, ColumnWriter&, const Timeline&);
/// More spans behind those that are there, in any order.
Result<bool> write_spans(ColumnWriter&, const std::vector<Span>&);
Result<bool> read_timeline(const Database&, ColumnReader&, Timeline&);

// Their part: lanes, communicators and details of what was traced. Runs of before have none.
Result<bool> write_timeline_details(const Database&, ColumnWriter&, const Timeline&);
Result<bool> read_timeline_details(const Database&, ColumnReader&, Timeline&);

Result<bool> write_series(const Database&, ColumnWriter&, const std::vector<Series>&,
                          Layout = Layout::of_each_device);
Result<bool> read_series(const Database&, ColumnReader&, std::vector<Series>&);

}  // namespace triplepoint::run
