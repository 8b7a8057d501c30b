// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/data_table.h"

#include <algorithm>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/lists.h"
#include "triplepoint/base/result.h"

namespace triplepoint {
namespace {

Json json_of(const DataCell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&cell)) return *whole;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return nullptr;
}

std::optional<std::size_t> rank_column(const DataTable& table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].key == "rank") return i;
  return std::nullopt;
}

}  // namespace

std::optional<double> number_in(const DataCell& cell) {
  if (const auto* whole = std::get_if<int64_t>(&cell)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return std::nullopt;
}

std::optional<RankSpread> spread_of_column(const DataTable& table, std::size_t column) {
  const auto ranks = rank_column(table);
  if (!ranks || !table.columns[column].spread || table.rows.size() < 2) return std::nullopt;
  std::vector<RankValue> values;
  for (const auto& row : table.rows) {
    const auto rank = number_in(row[*ranks]), value = number_in(row[column]);
    if (rank && value) values.push_back({static_cast<int32_t>(*rank), *value});
  }
  const bool one_rank = std::ranges::all_of(
      values, [&](const auto& value) { return value.rank == values.front().rank; });
  if (one_rank) return std::nullopt;
  return spread_of(std::move(values));
}

DataTable text_table(std::vector<TextColumn> columns) {
  DataTable table;
  for (TextColumn& column : columns)
    table.columns.push_back({.key = column.title,
                             .title = std::move(column.title),
                             .align = column.align,
                             .optional = column.optional});
  return table;
}

DataTable titled_table(const std::vector<std::string>& titles) {
  return text_table(
      mapped(titles, [](const std::string& title) { return TextColumn{.title = title}; }));
}

DataTable without_blank_columns(DataTable table) {
  if (table.rows.empty()) return table;
  const auto is_blank = [](const DataCell& cell) {
    const auto* text = std::get_if<std::string>(&cell);
    return text && text->empty();
  };
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (!std::ranges::all_of(table.rows, [&](const auto& row) { return is_blank(row[i]); }))
      continue;
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows)
      row.erase(row.begin() + at);
  }
  return table;
}

void DataTable::add(std::vector<DataCell> row, std::string job) {
  TPT_EXPECT(row.size() == columns.size());
  jobs.resize(rows.size());
  jobs.push_back(std::move(job));
  rows.push_back(std::move(row));
}

Json table_json(const DataTable& table) {
  Json rows = Json::array(), spreads = Json::object();
  for (const auto& row : table.rows) {
    Json object = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i)
      object[table.columns[i].key] = json_of(row[i]);
    rows.push_back(std::move(object));
  }
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto spread = spread_of_column(table, i);
    if (!spread) continue;
    spreads[table.columns[i].key] = {
        {"min", spread->minimum},   {"min_rank", spread->minimum_rank},
        {"median", spread->median}, {"median_rank", spread->median_rank},
        {"max", spread->maximum},   {"max_rank", spread->maximum_rank}};
  }
  Json json = {{"rows", std::move(rows)}};
  if (!spreads.empty()) json["spread"] = std::move(spreads);
  return json;
}

std::string table_csv(const DataTable& table) {
  const std::vector<std::string> header = mapped(table.columns, &DataColumn::key);
  CsvWriter csv(header);
  for (const auto& row : table.rows) {
    for (const DataCell& cell : row) {
      if (const auto* text = std::get_if<std::string>(&cell))
        csv.cell(*text);
      else if (const auto* whole = std::get_if<int64_t>(&cell))
        csv.cell(*whole);
      else if (const auto* real = std::get_if<double>(&cell))
        csv.cell(*real);
      else
        csv.empty_cell();
    }
    csv.end_row();
  }
  return csv.text();
}

}  // namespace triplepoint
