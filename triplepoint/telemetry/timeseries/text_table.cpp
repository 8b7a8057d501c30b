// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/timeseries/text_table.h"

#include <algorithm>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry {
namespace {

void append_utf8(std::string& text, uint32_t code) {
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | ((code >> shift) & 0x3fU));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0U | (code >> 6U));
    tail(0);
  } else {
    text += static_cast<char>(0xe0U | (code >> 12U));
    tail(6);
    tail(0);
  }
}

/// "62,0" or "412,33 W": a comma with one or two digits behind it.
bool has_decimal_comma(std::string_view cell) {
  const std::size_t comma = cell.find(',');
  if (comma == cell.npos || comma == 0 || cell.find_first_not_of("0123456789") != comma)
    return false;
  std::size_t digits = 0;
  while (comma + 1 + digits < cell.size() && is_digit(cell[comma + 1 + digits]))
    ++digits;
  return digits == 1 || digits == 2;
}

/// Of a file that may be UTF-16 (PowerShell writes it so) or begin with a byte order mark.
std::string as_utf8(std::string text) {
  if (text.starts_with("\xef\xbb\xbf")) return text.substr(3);
  const bool little = text.starts_with("\xff\xfe"), big = text.starts_with("\xfe\xff");
  if (!little && !big) return text;
  std::string utf8;
  for (std::size_t i = 2; i + 1 < text.size(); i += 2) {
    const auto first = static_cast<unsigned char>(text[i]);
    const auto second = static_cast<unsigned char>(text[i + 1]);
    append_utf8(utf8, little ? second * 256U + first : first * 256U + second);
  }
  return utf8;
}

}  // namespace

void split_cells(std::string_view line, const TableForm& form,
                 std::vector<std::string_view>& cells) {
  cells.clear();
  if (form.separator == ' ') {
    while (!(line = trimmed(line)).empty()) {
      const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
      cells.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
    return;
  }
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (line[i] != form.separator || quoted)) continue;
    cells.push_back(trimmed(line.substr(begin, i - begin), " \t\r\""));
    begin = i + 1;
  }
}

bool next_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const std::size_t end = std::min(text.find('\n'), text.size());
  line = trimmed(text.substr(0, end), "\r");
  text.remove_prefix(std::min(end + 1, text.size()));
  return true;
}

std::string plain_text(std::string text) {
  text = as_utf8(std::move(text));
  std::string_view rest = text, line;
  const auto is_message = [&] { return line.starts_with("WARNING") || line.starts_with("="); };
  std::size_t begin = 0;
  while (next_line(rest, line) && (trimmed(line).empty() || is_message()))
    begin = text.size() - rest.size();
  return text.substr(begin);
}

TableHead head_of(std::string_view text) {
  TableHead head;
  std::string_view line;
  next_line(text, line);
  head.line = trimmed(line);
  std::string_view titles = head.line;
  std::vector<std::string_view> cells;
  const auto count = [&](char c) { return std::ranges::count(titles, c); };
  if (titles.starts_with('#')) {
    titles = trimmed(titles.substr(1));
    head.form.separator = count(',') > 0 ? ',' : ' ';
  } else if (count(';') > 0 || count('\t') > 0) {
    head.form.separator = count(';') > 0 ? ';' : '\t';
    head.form.decimal_comma = head.form.separator == ';';
  } else if (count(',') == 0 && contains(titles, "  ")) {
    head.form.separator = ' ';  // amd-smi monitor
  }
  split_cells(titles, head.form, cells);
  head.titles.assign(cells.begin(), cells.end());
  std::string_view rest = text;
  // "# Idx W C C %" or "ID W C" below.
  if (head.form.separator == ' ' && next_line(rest, line)) {
    const std::string_view below = trimmed(line, " \t#");
    const std::string first = lower_case(below.substr(0, std::min(below.find(' '), below.size())));
    if (first == "idx" || first == "id" || first == "yyyymmdd") {
      split_cells(below, head.form, cells);
      if (cells.size() == head.titles.size()) head.units.assign(cells.begin(), cells.end());
      text = rest;
    }
  }
  head.rows = text;
  const bool is_tab = head.form.separator == '\t';
  for (std::string_view sample = text.substr(0, 4096);
       (head.form.separator == ',' || is_tab) && next_line(sample, line);)
    if (is_tab || line.find('"') != line.npos) {
      split_cells(line, head.form, cells);
      head.form.decimal_comma |= std::ranges::any_of(cells, has_decimal_comma);
    }
  return head;
}

}  // namespace triplepoint::telemetry
