// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/text_table.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

namespace triplepoint::tui {
namespace {

constexpr std::size_t gap = 2;              // between columns
constexpr std::size_t narrowest_text = 12;  // no text column is cut below this

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

std::string padded(const std::string& text, std::size_t width, TextTable::Align align) {
  const std::size_t taken = display_width(text);
  const std::string spaces(width > taken ? width - taken : 0, ' ');
  return align == TextTable::Align::left ? text + spaces : spaces + text;
}

void drop_trailing_spaces(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), begins_character));
}

std::string shorten(std::string_view utf8, std::size_t width) {
  if (display_width(utf8) <= width) return std::string(utf8);
  if (width == 0) return "";
  std::size_t end = 0;
  for (std::size_t seen = 0; end < utf8.size(); ++end) {
    if (begins_character(utf8[end]) && seen++ == width - 1) break;
  }
  return std::string(utf8.substr(0, end)) + "…";
}

std::string wrap(std::string_view utf8, std::size_t width, std::string_view indent) {
  const std::size_t margin = std::min(utf8.find_first_not_of(' '), utf8.size());
  std::string lines(utf8.substr(0, margin));
  utf8.remove_prefix(margin);
  std::size_t filled = margin;
  for (bool first = true; !utf8.empty(); first = false) {
    const std::string_view word = utf8.substr(0, utf8.find(' '));
    const std::size_t size = display_width(word);
    if (!first && filled + 1 + size > width) {
      lines += "\n";
      lines += indent;
      filled = display_width(indent);
    } else if (!first) {
      lines += " ";
      ++filled;
    }
    lines += word;
    filled += size;
    utf8.remove_prefix(std::min(word.size() + 1, utf8.size()));
  }
  return lines;
}

void TextTable::add_row(std::vector<Cell> cells) {
  TPT_EXPECT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::natural_widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_)
    widths.push_back(std::max<std::size_t>(1, display_width(column.title)));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  return widths;
}

/// Takes a column off the widest text, or a whole optional column (width 0). False: nothing is left
/// to take.
bool TextTable::make_narrower(std::vector<std::size_t>& widths) const {
  std::size_t widest = widths.size(), last_optional = widths.size();
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (columns_[i].align == Align::left && widths[i] > narrowest_text &&
        (widest == widths.size() || widths[i] > widths[widest])) {
      widest = i;
    }
    if (columns_[i].optional && widths[i] > 0) last_optional = i;
  }
  if (widest < widths.size()) {
    --widths[widest];
    return true;
  }
  if (last_optional == widths.size()) return false;
  widths[last_optional] = 0;
  return true;
}

std::vector<std::size_t> TextTable::fitted_widths(const Console& console) const {
  std::vector<std::size_t> widths = natural_widths();
  if (!console.abilities().width) return widths;
  const auto taken = [&] {
    std::size_t sum = 0;
    for (std::size_t width : widths)
      if (width > 0) sum += width + (sum > 0 ? gap : 0);
    return sum;
  };
  while (taken() > *console.abilities().width && make_narrower(widths)) {
  }
  return widths;
}

std::string TextTable::left_out(const std::vector<std::size_t>& widths) const {
  std::string names;
  for (std::size_t i = 0; i < widths.size(); ++i)
    if (widths[i] == 0) names += (names.empty() ? "" : ", ") + columns_[i].title;
  return names.empty() ? "" : "(no room for: " + names + ")\n";
}

std::string TextTable::text(const Console& console) const {
  const std::vector<std::size_t> widths = fitted_widths(console);
  std::string result;
  const auto add_line = [&](const auto& cell_text, const auto& cell_style) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string cell =
          padded(shorten(cell_text(i), widths[i]), widths[i], columns_[i].align);
      line += (i > 0 ? std::string(gap, ' ') : "") + console.styled(cell, cell_style(i));
    }
    drop_trailing_spaces(line);
    result += line + "\n";
  };
  add_line([&](std::size_t i) { return columns_[i].title; },
           [](std::size_t) { return Style::bold; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t i) { return row[i].text; },
             [&](std::size_t i) { return row[i].style; });
  }
  return result + left_out(widths);
}

}  // namespace triplepoint::tui
