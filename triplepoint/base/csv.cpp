// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/csv.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

namespace triplepoint {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

/// One pass over the text. Quoted cells lose their quotes in place: what is left is never longer.
class CsvParser {
 public:
  CsvParser(CsvTable& table, CsvTable::BadRows bad_rows)
      : table_(table), text_(table.text_), bad_rows_(bad_rows) {}

  Result<void> parse() {
    if (text_.starts_with(byte_order_mark)) at_ = 3;
    skip_comments_and_empty_lines();
    TPT_TRY(read_header());
    while (skip_empty_lines(), at_ < text_.size())
      TPT_TRY(read_row());
    return {};
  }

 private:
  using Cell = CsvTable::Cell;

  void skip_line() {
    at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    ++line_;
  }
  void skip_empty_lines() {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r'))
      if (text_[at_++] == '\n') ++line_;
  }
  void skip_comments_and_empty_lines() {
    skip_empty_lines();
    while (at_ < text_.size() && text_[at_] == '#') {
      skip_line();
      skip_empty_lines();
    }
  }

  Result<void> read_header() {
    if (at_ >= text_.size())
      return error("{} is empty (a table needs a header); check the file", table_.name_);
    for (bool more = true; more;) {
      Cell cell;
      more = TPT_TRY(read_cell(cell));
      table_.header_.emplace_back(text_, cell.begin, cell.size);
    }
    return {};
  }

  Result<void> read_row() {
    const std::size_t begin = line_;
    Result<void> read = read_cells();
    if (read)
      table_.lines_.push_back(begin);
    else if (bad_rows_ == CsvTable::BadRows::leave_out && !unclosed_)
      return leave_out(begin, read.error().what);
    return read;
  }

  Result<void> read_cells() {
    const std::size_t begin = line_;
    std::size_t count = 0;
    for (bool more = true; more; ++count)
      more = TPT_TRY(read_cell(table_.cells_.emplace_back()));
    if (count == table_.header_.size()) return {};
    return error(
        "{}:{}: the row has {} cells, the header {} (every row needs all columns); "
        "quote cells that contain commas",
        table_.name_, begin, count, table_.header_.size());
  }

  /// Goes on behind the row; what was read of it is forgotten.
  Result<void> leave_out(std::size_t begin, std::string what) {
    table_.left_out_.push_back({begin, std::move(what)});
    table_.cells_.resize(table_.lines_.size() * table_.header_.size());
    const bool ended = at_ == 0 || text_[at_ - 1] == '\n' || text_[at_ - 1] == '\r';
    if (!ended && at_ < text_.size()) skip_line();
    return {};
  }

  /// Leaves the parser behind the cell and its separator; true if another cell follows in the row.
  Result<bool> read_cell(Cell& cell) {
    if (at_ < text_.size() && text_[at_] == '"')
      TPT_TRY(read_quoted(cell));
    else
      read_plain(cell);
    return pass_separator();
  }

  void read_plain(Cell& cell) {
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    cell = {at_, end - at_};
    at_ = end;
  }

  Result<void> read_quoted(Cell& cell) {
    const std::size_t opened = line_;
    std::size_t write = ++at_;
    cell.begin = write;
    for (; at_ < text_.size(); text_[write++] = text_[at_++]) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') continue;
      if (++at_ < text_.size() && text_[at_] == '"') continue;  // two quotes stand for one
      cell.size = write - cell.begin;
      return {};
    }
    unclosed_ = true;
    return error(
        "{}:{}: a quote is opened and never closed (the rest of the file would be one "
        "cell); close it or double it",
        table_.name_, opened);
  }

  Result<bool> pass_separator() {
    if (at_ >= text_.size()) return false;
    if (text_[at_] == ',') return ++at_, true;
    if (text_[at_] == '\r') ++at_;
    if (at_ >= text_.size()) return false;
    if (text_[at_] == '\n') return ++at_, ++line_, false;
    if (text_[at_ - 1] == '\r') return false;  // line breaks of old Macs
    return error(
        "{}:{}: text follows a closing quote (a quoted cell ends there); "
        "double the quotes inside it",
        table_.name_, line_);
  }

  CsvTable& table_;
  std::string& text_;
  CsvTable::BadRows bad_rows_;
  bool unclosed_ = false;  // a quote: nothing can be said of the rows behind it
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

Result<CsvTable> CsvTable::parse(std::string text, std::string name, BadRows bad_rows) {
  CsvTable table;
  table.name_ = std::move(name);
  table.text_ = std::move(text);
  TPT_TRY(CsvParser(table, bad_rows).parse());
  return table;
}

std::optional<std::size_t> CsvTable::column(std::string_view title) const {
  const auto found = std::ranges::find(header_, title);
  if (found == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header_.begin());
}

Result<std::size_t> CsvTable::require_column(std::string_view title) const {
  if (const auto found = column(title)) return *found;
  return error("{} has no column \"{}\" (it is needed); {}", name_, title,
               did_you_mean(title, header_));
}

std::string_view CsvTable::at(std::size_t row, std::size_t column) const {
  TPT_EXPECT(row < rows() && column < header_.size());
  const Cell& cell = cells_[row * header_.size() + column];
  return std::string_view(text_).substr(cell.begin, cell.size);
}

Result<std::optional<double>> CsvTable::number(std::size_t row, std::size_t column) const {
  const std::string_view cell = at(row, column);
  if (cell.empty()) return std::nullopt;
  if (const auto number = number_of_text<double>(cell); number && std::isfinite(*number))
    return number;
  return error(
      "{}:{}: \"{}\" in column {} is not a number (one is needed there); "
      "write it as in 12.5, or leave the cell empty",
      name_, line(row), cell, header_[column]);
}

std::size_t CsvTable::line(std::size_t row) const {
  TPT_EXPECT(row < rows());
  return lines_[row];
}

CsvWriter::CsvWriter(std::span<const std::string> header) : columns_(header.size()) {
  for (const std::string& title : header)
    cell(title);
  end_row();
}

CsvWriter& CsvWriter::empty_cell() {
  if (filled_ > 0) text_ += ',';
  ++filled_;
  return *this;
}

/// A text that a spreadsheet would take for a formula gets an apostrophe in front.
CsvWriter& CsvWriter::cell(std::string_view text) {
  if (is_formula(text)) return cell("'" + std::string(text));
  empty_cell();
  // A comment sign or byte order mark means something at the head of a file only; quoted it never
  // does.
  const bool is_plain = text.find_first_of(",\"\r\n") == std::string_view::npos &&
                        !text.starts_with('#') && !text.starts_with(byte_order_mark);
  if (is_plain) {
    text_ += text;
    return *this;
  }
  text_ += '"';
  for (const char c : text) {
    if (c == '"') text_ += '"';
    text_ += c;
  }
  text_ += '"';
  return *this;
}

CsvWriter& CsvWriter::cell(double number) {
  TPT_EXPECT(std::isfinite(number));  // absence is an empty cell
  empty_cell();
  fmt::format_to(std::back_inserter(text_), "{}", number);
  return *this;
}

CsvWriter& CsvWriter::cell(std::int64_t number) {
  empty_cell();
  fmt::format_to(std::back_inserter(text_), "{}", number);
  return *this;
}

void CsvWriter::end_row() {
  TPT_EXPECT(filled_ == columns_);
  // A row of one empty cell would be an empty line, which readers skip.
  if (columns_ == 1 && (text_.empty() || text_.back() == '\n')) text_ += "\"\"";
  text_ += '\n';
  filled_ = 0;
}

}  // namespace triplepoint
