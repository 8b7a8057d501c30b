// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/csv.h"

namespace triplepoint::calibrate {

/// One row of a table, its cells by the title of their column. A column that the table does not
/// have is as empty as a cell with nothing in it.
class Cells {
 public:
  Cells(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  std::string text(std::string_view title) const {
    const auto column = table_->column(title);
    return column ? std::string(table_->at(row_, *column)) : std::string();
  }
  bool has(std::string_view title) const { return !text(title).empty(); }
  /// Nothing where the cell is empty, or no number.
  std::optional<double> number(std::string_view title) const {
    const auto column = table_->column(title);
    if (!column) return std::nullopt;
    const auto value = table_->number(row_, *column);
    return value ? *value : std::nullopt;
  }
  double number_or(std::string_view title, double otherwise) const {
    return number(title).value_or(otherwise);
  }
  /// Zero where there is no number; what is too large for one becomes 10^15, which nothing has.
  int64_t count(std::string_view title) const {
    constexpr double most = 1e15;
    const double value = number_or(title, 0);
    if (!(std::abs(value) < most)) return value > 0 ? static_cast<int64_t>(most) : 0;
    return static_cast<int64_t>(value);
  }
  /// Does column `skip` hold a reason why the row cannot be predicted?
  bool is_skipped() const { return has("skip"); }
  /// The table's own name of the row, or where it stands.
  std::string id() const {
    const std::string given = text("row_id");
    return given.empty() ? "line " + std::to_string(table_->line(row_)) : given;
  }

 private:
  const CsvTable* table_;
  std::size_t row_;
};

}  // namespace triplepoint::calibrate
