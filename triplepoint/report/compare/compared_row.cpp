// SPDX-License-Identifier: Apache-2.0
// One number of every side, and how far they lie apart.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/compare/compare.h"

namespace triplepoint::report {

namespace {
using Value = std::optional<double>;
}  // namespace

bool is_same(const ComparedRow& row, const Difference& by) {
  if (by.relative) return std::abs(*by.relative) < min_relative_change;
  return std::abs(by.absolute / row.scale) < min_relative_change;
}

std::string ComparedRow::value_text(std::size_t side) const {
  if (!values[side]) return "–";
  if (unit.empty() && *values[side] == std::floor(*values[side]))
    return whole(static_cast<int64_t>(*values[side]));  // a count
  return significant(*values[side] / scale, says == ChangeForm::relative ? 4 : 3);
}

std::optional<Difference> difference(const ComparedRow& row, std::size_t side) {
  const Value base = row.values[0], value = row.values[side];
  if (!base || !value) return std::nullopt;
  Difference answer{*value - *base, std::nullopt};
  if (*base != 0) answer.relative = answer.absolute / std::abs(*base);
  return answer;
}

std::string difference_text(const ComparedRow& row, std::size_t side) {
  const auto by = difference(row, side);
  if (!by) return "–";
  if (is_same(row, *by)) return "same";
  const char* sign = by->absolute > 0 ? "+" : "−";
  if (row.says == ChangeForm::relative && by->relative) {
    const double size = std::abs(*by->relative);
    if (size >= 2) return fmt::format("×{}", significant(1 + *by->relative));
    return fmt::format("{}{} %", sign, significant(100 * size, size < 1 ? 2 : 3));
  }
  const std::string number = significant(std::abs(by->absolute) / row.scale, 2);
  if (row.unit == "%") return fmt::format("{}{} points", sign, number);
  return fmt::format("{}{}{}{}", sign, number, row.unit.empty() ? "" : " ", row.unit);
}

DataCell difference_cell(const ComparedRow& row, std::size_t side) {
  const int good = judgement(row, side);
  return {difference_text(row, side), good > 0   ? Style::good
                                      : good < 0 ? Style::bad
                                                 : Style::plain};
}

int judgement(const ComparedRow& row, std::size_t side) {
  const auto by = difference(row, side);
  if (!by || row.better == answers::Better::neither || is_same(row, *by)) return 0;
  return (by->absolute > 0) == (row.better == answers::Better::higher) ? 1 : -1;
}

triplepoint::DataTable section_table(const Comparison& c, const ComparedSection& section) {
  std::vector<TextColumn> columns = {{"number", Align::left}};
  for (std::size_t i = 0; i < c.sides.size(); ++i) {
    columns.push_back({c.sides[i].name});
    if (i > 0) columns.push_back({"difference"});
  }
  triplepoint::DataTable table = text_table(std::move(columns));
  table.title = section.title;
  for (const ComparedRow& row : section.rows) {
    std::vector<DataCell> cells = {row.unit.empty() ? row.title
                                                    : fmt::format("{} ({})", row.title, row.unit)};
    for (std::size_t i = 0; i < c.sides.size(); ++i) {
      cells.emplace_back(row.value_text(i));
      if (i > 0) cells.push_back(difference_cell(row, i));
    }
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace triplepoint::report
