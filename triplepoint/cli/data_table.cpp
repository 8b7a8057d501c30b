// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/data_table.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/expect.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/text_table.h"
#include "triplepoint/metrics/trace/breakdown.h"

namespace triplepoint::cli {
namespace {

std::optional<double> number_of(const DataCell& cell) {
  if (const auto* whole = std::get_if<int64_t>(&cell)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return std::nullopt;
}

std::string text_of(const DataCell& cell, const DataColumn& column) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto number = number_of(cell))
    return fmt::format("{:.{}f}", *number / column.scale, column.digits);
  return "n/a";
}

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

std::optional<metrics::RankSpread> spread_of_column(const DataTable& table, std::size_t column) {
  const auto ranks = rank_column(table);
  if (!ranks || !table.columns[column].spread || table.rows.size() < 2) return std::nullopt;
  std::vector<metrics::RankValue> values;
  for (const auto& row : table.rows) {
    const auto rank = number_of(row[*ranks]), value = number_of(row[column]);
    if (rank && value) values.push_back({static_cast<int32_t>(*rank), *value});
  }
  const bool one_rank = std::all_of(values.begin(), values.end(), [&](const auto& value) {
    return value.rank == values.front().rank;
  });
  if (one_rank) return std::nullopt;
  return metrics::spread_of(std::move(values));
}

/// "12.5 /3": a value and the rank that has it, as Megatron writes it.
void add_spread_rows(const DataTable& table, TextTable& text) {
  struct Row {
    const char* word;
    double metrics::RankSpread::*value;
    int32_t metrics::RankSpread::*rank;
  };
  using Spread = metrics::RankSpread;
  for (const Row& which : {Row{"min /rank", &Spread::minimum, &Spread::minimum_rank},
                           Row{"median /rank", &Spread::median, &Spread::median_rank},
                           Row{"max /rank", &Spread::maximum, &Spread::maximum_rank}}) {
    std::vector<TextTable::Cell> cells;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const DataColumn& column = table.columns[i];
      const auto spread = spread_of_column(table, i);
      if (i == 0)
        cells.emplace_back(which.word, Style::dim);
      else if (!spread)
        cells.emplace_back("");
      else
        cells.emplace_back(fmt::format("{:.{}f} /{}", (*spread).*which.value / column.scale,
                                       column.digits, (*spread).*which.rank),
                           Style::dim);
    }
    text.add_row(std::move(cells));
  }
}

bool is_text(const DataTable& table, std::size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return std::holds_alternative<std::string>(row[column]);
  });
}

std::string missing_text(const DataTable& table) {
  std::map<std::string, std::set<std::size_t>> columns;  // by reason
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      if (const auto* missing = std::get_if<Missing>(&row[i])) columns[missing->why].insert(i);
  std::string text;
  for (const auto& [why, which] : columns) {
    std::string titles;
    for (std::size_t i : which)
      titles += (titles.empty() ? "" : ", ") + table.columns[i].title;
    text += fmt::format("n/a ({}): {}\n", titles, why);
  }
  return text;
}

}  // namespace

void DataTable::add(std::vector<DataCell> row) {
  TPT_EXPECT(row.size() == columns.size());
  rows.push_back(std::move(row));
}

std::string table_text(const DataTable& table, const Console& console) {
  std::vector<TextTable::Column> columns;
  bool any_spread = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool left = is_text(table, i);
    columns.push_back(
        {table.columns[i].title, left ? TextTable::Align::left : TextTable::Align::right});
    any_spread |= spread_of_column(table, i).has_value();
  }
  TextTable text(std::move(columns));
  for (const auto& row : table.rows) {
    std::vector<TextTable::Cell> cells;
    for (std::size_t i = 0; i < row.size(); ++i)
      cells.emplace_back(text_of(row[i], table.columns[i]));
    text.add_row(std::move(cells));
  }
  if (any_spread) add_spread_rows(table, text);
  return console.styled(table.title, Style::bold) + "\n" + text.text(console) + missing_text(table);
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
  std::vector<std::string> header;
  for (const DataColumn& column : table.columns)
    header.push_back(column.key);
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

}  // namespace triplepoint::cli
