// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint {

/// A number that is not there, and why.
struct Missing {
  std::string why;
};

/// How a text looks on a terminal with colour.
enum class Style { plain, bold, dim, good, warning, bad };

struct DataCell : std::variant<Missing, int64_t, double, std::string> {
  using variant::variant;
  DataCell(std::string text, Style look) : variant(std::move(text)), style(look) {}

  Style style = Style::plain;
};

template <class T>
DataCell cell_of(const std::optional<T>& value, const char* why) {
  if (value) return *value;
  return Missing{why};
}

enum class Align { by_content, left, right };  // by content: text left, numbers right

/// One column: machines read `key` (which names the unit), people read `title`, their numbers
/// divided by `scale`.
struct DataColumn {
  std::string key, title;
  double scale = 1;
  int digits = 0;       // behind the point
  bool spread = false;  // smallest, median and largest are shown below, with their ranks
  Align align = Align::by_content;
  // 0: always shown. Where the terminal has no room, columns of the highest number go first.
  int optional = 0;
  bool whole = false;        // text goes on in the next line instead of being cut
  bool significant = false;  // digits count from the first one, not from the point
};

/// Rows that are printed as a table for people, as JSON objects, or as CSV: the same numbers. A
/// column called "rank" names the rank of a row.
struct DataTable {
  std::string name, title;
  std::vector<DataColumn> columns;
  std::vector<std::vector<DataCell>> rows;
  std::vector<std::string> jobs = {};  // of each row; empty, or shorter: the row is of no job

  void add(std::vector<DataCell> row, std::string job = "");
};

/// A column that people and machines read under one name.
struct TextColumn {
  std::string title;
  Align align = Align::right;
  int optional = 0;  // as in DataColumn
};
/// A table without a title whose cells are texts.
DataTable text_table(std::vector<TextColumn> columns);
/// The same of titles alone.
DataTable titled_table(const std::vector<std::string>& titles);

/// For people: without columns in which no row has a text.
DataTable without_blank_columns(DataTable);

/// The number of a cell; nothing for text and what is missing.
std::optional<double> number_in(const DataCell&);
/// Smallest, median and largest of a column over ranks; nothing unless the column asks for it and
/// more than one rank is there.
std::optional<RankSpread> spread_of_column(const DataTable&, std::size_t column);

/// {"rows": [{key: number, text or null}, ...], "spread": {key: {"min", "min_rank", ...}}}
Json table_json(const DataTable&);
std::string table_csv(const DataTable&);

}  // namespace triplepoint
