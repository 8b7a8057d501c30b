// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/data_table_text.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "triplepoint/tui/text_table.h"

namespace triplepoint::tui {
namespace {

std::string text_of(const DataCell& cell, const DataColumn& column) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto number = number_in(cell))
    return fmt::format("{:.{}f}", *number / column.scale, column.digits);
  return "n/a";
}

/// "12.5 /3": a value and the rank that has it, as Megatron writes it.
void add_spread_rows(const DataTable& table, TextTable& text) {
  struct Row {
    const char* word;
    double RankSpread::*value;
    int32_t RankSpread::*rank;
  };
  using Spread = RankSpread;
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

}  // namespace triplepoint::tui
