// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint {

/// A CSV file in memory, cells found by the name of their column.
///
/// RFC 4180: comma, double quotes, quoted line breaks; also bare LF and a byte order mark. Lines
/// before the header that begin with # are comments.
class CsvTable {
 public:
  /// A row whose cells cannot be told apart: an error of the table, or left out of it.
  enum class BadRows { refuse, leave_out };
  struct BadRow {
    std::size_t line = 0;
    std::string what;
  };

  /// `name` is used in messages. Every row must have as many cells as the header; empty lines are
  /// skipped.
  static Result<CsvTable> parse(std::string text, std::string name, BadRows = BadRows::refuse);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& header() const { return header_; }
  std::size_t rows() const { return lines_.size(); }
  const std::vector<BadRow>& left_out() const { return left_out_; }

  std::optional<std::size_t> column(std::string_view title) const;
  /// The column, or an error that suggests another title.
  Result<std::size_t> require_column(std::string_view title) const;

  /// The cell without its quotes. Points into this table.
  std::string_view at(std::size_t row, std::size_t column) const;
  /// The cell as a number; nothing if it is empty.
  Result<std::optional<double>> number(std::size_t row, std::size_t column) const;
  /// Where the row begins in the file, counted from 1.
  std::size_t line(std::size_t row) const;

 private:
  struct Cell {  // offsets, not pointers, so that a table may be copied and moved
    std::size_t begin = 0, size = 0;
  };
  friend class CsvParser;

  std::string name_, text_;
  std::vector<std::string> header_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> lines_;
  std::vector<BadRow> left_out_;
};

/// Writes CSV that CsvTable reads back: quotes where needed, numbers in their shortest exact form.
class CsvWriter {
 public:
  explicit CsvWriter(std::span<const std::string> header);

  CsvWriter& cell(std::string_view text);
  CsvWriter& cell(double number);
  CsvWriter& cell(std::int64_t number);
  CsvWriter& empty_cell();
  /// Ends the row; it must have as many cells as the header.
  void end_row();

  const std::string& text() const { return text_; }

 private:
  std::size_t columns_, filled_ = 0;
  std::string text_;
};

}  // namespace triplepoint
