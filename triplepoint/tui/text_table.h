// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// How many columns a text takes: code points, which is right for everything we print.
std::size_t display_width(std::string_view utf8);
/// At most `width` columns; what does not fit ends in an ellipsis.
std::string shorten(std::string_view utf8, std::size_t width);
/// Lines of at most `width` columns, broken at spaces; later lines begin with `indent`.
std::string wrap(std::string_view utf8, std::size_t width, std::string_view indent = "");

/// An aligned table that fits the terminal: numbers stand right, text left, the widest text columns
/// give way, then optional columns go.
class TextTable {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
    bool optional = false;  // left out, last first, where the terminal has no room for it
  };
  struct Cell {
    std::string text;
    Style style = Style::plain;
    // NOLINTBEGIN(google-explicit-constructor): rows read as lists of text
    Cell(std::string t, Style s = Style::plain) : text(std::move(t)), style(s) {}
    Cell(const char* t) : text(t) {}
    // NOLINTEND(google-explicit-constructor)
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<Cell> cells);
  std::string text(const Console& console) const;

 private:
  std::vector<std::size_t> natural_widths() const;
  std::vector<std::size_t> fitted_widths(const Console& console) const;
  bool make_narrower(std::vector<std::size_t>& widths) const;
  std::string left_out(const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace triplepoint::tui
