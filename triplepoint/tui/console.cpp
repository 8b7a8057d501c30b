// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/console.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "triplepoint/base/text.h"
#include "triplepoint/base/units.h"

namespace triplepoint::tui {
namespace {

std::optional<std::size_t> terminal_width(int descriptor) {
  if (isatty(descriptor) == 0) return std::nullopt;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

/// As the locale says; one that says nothing knows ASCII.
bool knows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale(value);
    return contains(locale, "UTF-8") || contains(locale, "utf8");
  }
  return false;
}

const char* escape_code(Style style) {
  return word_for<Style::bad>({"", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m"},
                              style);
}

/// Length of the control character that the text begins with; 0: none. U+0080 to U+009F are control
/// characters, too: U+009B is what ESC [ is.
std::size_t control_length(std::string_view utf8) {
  const auto first = static_cast<unsigned char>(utf8.front());
  if (first < 0x20 || first == 0x7F) return 1;
  if (first != 0xC2 || utf8.size() < 2) return 0;
  const auto second = static_cast<unsigned char>(utf8[1]);
  return second >= 0x80 && second < 0xA0 ? 2 : 0;
}

std::string written_out(std::string_view control) {
  if (control == "\n") return "\\n";
  if (control == "\t") return "\\t";
  if (control == "\r") return "\\r";
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(control.back()));
}

/// Length of one of our own styles at the begin of the text; 0: there is none.
std::size_t style_length(std::string_view text) {
  if (text.starts_with("\033[0m")) return 4;
  for (const Style style : {Style::bold, Style::dim, Style::good, Style::warning, Style::bad})
    if (const std::string_view code = escape_code(style); text.starts_with(code))
      return code.size();
  return 0;
}

/// `kept`: how many bytes at the begin of a text stay, although they begin with a control
/// character.
std::string without_controls(std::string_view text, auto kept) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t control = control_length(text), stays = control > 0 ? kept(text) : 1;
    if (stays > 0)
      clean += text.substr(0, stays);
    else
      clean += written_out(text.substr(0, control));
    text.remove_prefix(stays > 0 ? stays : control);
  }
  return clean;
}

/// Of whole lines, with styles.
std::string lines_for_terminal(std::string_view text) {
  return without_controls(text, [](std::string_view rest) -> std::size_t {
    return rest.front() == '\n' || rest.front() == '\t' ? 1 : style_length(rest);
  });
}

using Values = std::vector<std::optional<double>>;

constexpr std::string_view blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view ascii[] = {"_", ".", "-", "=", "+", "*", "%", "#"};

/// Smallest and largest of the finite values; nothing where there is none.
std::optional<std::pair<double, double>> range_of(const Values& values) {
  std::optional<std::pair<double, double>> range;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) continue;
    if (!range) range = {*value, *value};
    range->first = std::min(range->first, *value);
    range->second = std::max(range->second, *value);
  }
  return range;
}

}  // namespace

void Console::draw_status(std::string_view line) {
  if (line.empty() && !has_status_) return;
  *err_ << "\r\033[K" << line << std::flush;
  has_status_ = !line.empty();
}

void Console::print(std::string_view text) {
  draw_status("");
  errno = 0;
  if (abilities_.width)
    *out_ << lines_for_terminal(text);
  else
    *out_ << text;
  if (!*out_ && errno == EPIPE) reader_left_ = true;
}

void Console::warn(std::string_view text) {
  draw_status("");
  *err_ << lines_for_terminal(text);
}

void Console::flush() {
  errno = 0;
  out_->flush();
  if (!*out_ && errno == EPIPE) reader_left_ = true;
  err_->flush();
}

std::string Console::styled(std::string_view text, Style style) const {
  if (!abilities_.colour || style == Style::plain) return printable(text);
  return fmt::format("{}{}\033[0m", escape_code(style), printable(text));
}

Console process_console() {
  Console::Abilities abilities;
  abilities.width = terminal_width(STDOUT_FILENO);
  abilities.colour = abilities.width.has_value() && wants_colour();
  abilities.unicode = !abilities.width || knows_unicode();  // files are UTF-8
  const auto error_width = terminal_width(STDERR_FILENO);
  abilities.error_is_terminal = error_width.has_value();
  abilities.error_width = error_width.value_or(80);
  return Console(std::cout, std::cerr, abilities);
}

std::string sparkline(const Values& values, bool unicode) {
  const auto range = range_of(values);
  std::string line;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) {
      line += ' ';
      continue;
    }
    const double width = range->second - range->first;
    const double share = width > 0 ? (*value - range->first) / width : 0.5;
    const auto step = static_cast<std::size_t>(std::clamp(std::floor(share * 8), 0.0, 7.0));
    line += unicode ? blocks[step] : ascii[step];
  }
  return line;
}

namespace {

constexpr std::size_t gap = 2;               // between columns
constexpr std::size_t narrowest_text = 12;   // no text column is cut below this
constexpr std::size_t narrowest_whole = 28;  // nor one whose text goes on in the next line

struct TextCell {
  std::string text;
  Style style = Style::plain;
};
using TextRow = std::vector<TextCell>;
using Widths = std::vector<std::size_t>;  // 0: the column is left out

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

std::string text_of(const DataCell& cell, const DataColumn& column) {
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  const auto number = number_in(cell);
  if (!number) return "n/a";
  const double shown = *number / column.scale;
  return column.significant ? significant(shown, column.digits) : fixed_point(shown, column.digits);
}

/// "12.5 /3": a value and the rank that has it, as Megatron writes it.
void add_spread_rows(const DataTable& table, std::vector<TextRow>& rows) {
  struct Row {
    const char* word;
    double RankSpread::*value;
    int32_t RankSpread::*rank;
  };
  using Spread = RankSpread;
  for (const Row& which : {Row{"min /rank", &Spread::minimum, &Spread::minimum_rank},
                           Row{"median /rank", &Spread::median, &Spread::median_rank},
                           Row{"max /rank", &Spread::maximum, &Spread::maximum_rank}}) {
    TextRow cells;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const DataColumn& column = table.columns[i];
      const auto spread = spread_of_column(table, i);
      if (i == 0)
        cells.push_back({which.word, Style::dim});
      else if (!spread)
        cells.push_back({});
      else
        cells.push_back(
            {fmt::format("{} /{}",
                         fixed_point((*spread).*which.value / column.scale, column.digits),
                         (*spread).*which.rank),
             Style::dim});
    }
    rows.push_back(std::move(cells));
  }
}

bool stands_left(const DataTable& table, std::size_t column) {
  if (table.columns[column].align != Align::by_content)
    return table.columns[column].align == Align::left;
  return std::ranges::any_of(table.rows, [&](const auto& row) {
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
    const std::string titles =
        joined(mapped(which, [&](std::size_t i) { return table.columns[i].title; }), ", ");
    text += fmt::format("n/a ({}): {}\n", titles, why);
  }
  return text;
}

/// Takes a character off the widest text, or leaves out an optional column; at last, of a table of
/// numbers alone, the rightmost. False: nothing is left to take.
bool make_narrower(const DataTable& table, const std::vector<bool>& left, Widths& widths) {
  const std::size_t none = widths.size();
  std::size_t widest = none, least_wanted = none;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const DataColumn& column = table.columns[i];
    const std::size_t narrowest = column.whole ? narrowest_whole : narrowest_text;
    if (left[i] && widths[i] > narrowest && (widest == none || widths[i] > widths[widest]))
      widest = i;
    if (column.optional > 0 && widths[i] > 0 &&
        (least_wanted == none || column.optional >= table.columns[least_wanted].optional))
      least_wanted = i;
  }
  constexpr std::size_t least_columns = 3;
  for (std::size_t i = widths.size(); i-- > least_columns && least_wanted == none;)
    if (widths[i] > 0) least_wanted = i;
  if (widest != none)
    --widths[widest];
  else if (least_wanted != none)
    widths[least_wanted] = 0;
  return widest != none || least_wanted != none;
}

Widths fitted_widths(const DataTable& table, const std::vector<TextRow>& rows,
                     const std::vector<bool>& left, const Console& console) {
  Widths widths(table.columns.size(), 1);
  for (const TextRow& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i].text));
  if (!console.abilities().width) return widths;
  const auto taken = [&] {
    std::size_t sum = 0;
    for (std::size_t width : widths)
      if (width > 0) sum += width + (sum > 0 ? gap : 0);
    return sum;
  };
  while (taken() > *console.abilities().width && make_narrower(table, left, widths)) {
  }
  return widths;
}

/// The lines of a cell in a column of this width.
std::vector<std::string> cell_lines(const std::string& text, std::size_t width, bool whole) {
  if (whole) return split(wrap(text, width, "  "), '\n');
  return {shorten(text, width)};
}

std::string row_text(const DataTable& table, const TextRow& row, const Widths& widths,
                     const std::vector<bool>& left, const Console& console) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    cells.push_back(cell_lines(row[i].text, widths[i], table.columns[i].whole));
    if (widths[i] > 0) height = std::max(height, cells[i].size());
  }
  std::string lines;
  for (std::size_t k = 0; k < height; ++k) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string text = k < cells[i].size() ? cells[i][k] : "";
      const std::string spaces(widths[i] - std::min(widths[i], display_width(text)), ' ');
      line += (i > 0 ? std::string(gap, ' ') : "") +
              console.styled(left[i] ? text + spaces : spaces + text, row[i].style);
    }
    lines += line.erase(line.find_last_not_of(' ') + 1) + "\n";
  }
  return lines;
}

std::string left_out(const DataTable& table, const Widths& widths) {
  std::string names;
  for (std::size_t i = 0; i < widths.size(); ++i)
    if (widths[i] == 0) names += (names.empty() ? "" : ", ") + table.columns[i].title;
  return names.empty() ? "" : "(no room for: " + names + ")\n";
}

/// The headings and below them the rows.
std::vector<TextRow> text_rows(const DataTable& table) {
  std::vector<TextRow> rows(1);
  bool any_spread = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    rows[0].push_back({table.columns[i].title, Style::bold});
    any_spread |= spread_of_column(table, i).has_value();
  }
  for (const auto& row : table.rows) {
    TextRow& cells = rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i)
      cells.push_back({text_of(row[i], table.columns[i]), row[i].style});
  }
  if (any_spread) add_spread_rows(table, rows);
  return rows;
}

}  // namespace

std::string printable(std::string_view utf8) {
  return without_controls(utf8, [](std::string_view) { return std::size_t{0}; });
}

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, begins_character));
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

void print_wrapped(Console& console, std::string_view text, std::string_view indent) {
  console.print(wrap(text, console.abilities().width.value_or(100), indent) + "\n");
}

std::string table_text(const DataTable& all, const Console& console) {
  const DataTable table = without_blank_columns(all);
  const std::vector<TextRow> rows = text_rows(table);
  const std::vector<bool> left =
      numbered(table.columns.size(), [&](std::size_t i) { return stands_left(table, i); });
  const Widths widths = fitted_widths(table, rows, left, console);
  std::string text = table.title.empty() ? "" : console.styled(table.title, Style::bold) + "\n";
  for (const TextRow& row : rows)
    text += row_text(table, row, widths, left, console);
  return text + left_out(table, widths) + missing_text(table);
}

}  // namespace triplepoint::tui
