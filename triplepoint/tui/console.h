// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/data_table.h"

namespace triplepoint::tui {

using triplepoint::Style;

/// Where a command writes. Tests give it string streams; the program gives it the terminal.
class Console {
 public:
  struct Abilities {
    std::optional<std::size_t> width;  // columns of standard output; absent: no terminal, no limit
    bool colour = false;               // on standard output
    bool unicode = true;               // else ASCII only, where there is a choice
    bool error_is_terminal = false;    // progress may be drawn on standard error
    std::size_t error_width = 80;
  };

  Console(std::ostream& out, std::ostream& err, Abilities abilities)
      : out_(&out), err_(&err), abilities_(abilities) {}

  /// On a terminal without control characters (see printable), but for line breaks, tabs and our
  /// own styles: names come from files of others.
  void print(std::string_view text);
  void warn(std::string_view text);
  /// The last line of standard error, drawn over the one before; it goes when something is printed.
  void draw_status(std::string_view line);
  void flush();
  bool out_is_good() const { return out_->good(); }
  /// The reader of our output has left, as in `triplepoint show models | head -1`.
  bool reader_left() const { return reader_left_; }
  const Abilities& abilities() const { return abilities_; }

  /// The text in a style, where there is colour; otherwise the text.
  std::string styled(std::string_view text, Style style) const;

 private:
  std::ostream* out_;
  std::ostream* err_;
  Abilities abilities_;
  bool reader_left_ = false;
  bool has_status_ = false;
};

/// Standard output and error of this process. Colour only on a terminal, never with NO_COLOR set or
/// TERM=dumb.
Console process_console();

/// One character per value, higher for larger ones, from the lowest to the highest of them; a space
/// where there is none. Eighths of blocks, or ASCII where the terminal knows nothing else.
std::string sparkline(const std::vector<std::optional<double>>& values, bool unicode);

/// The text with control characters as they are written in programs: \x1b[2J, \n.
std::string printable(std::string_view utf8);

/// How many columns a text takes: code points, which is right for everything we print.
std::size_t display_width(std::string_view utf8);
/// At most `width` columns; what does not fit ends in an ellipsis.
std::string shorten(std::string_view utf8, std::size_t width);
/// Lines of at most `width` columns, broken at spaces; later lines begin with `indent`.
std::string wrap(std::string_view utf8, std::size_t width, std::string_view indent = "");
/// A paragraph as wide as the terminal, else 100 columns, and a line break.
void print_wrapped(Console& console, std::string_view text, std::string_view indent = "  ");

/// The table as text that fits the terminal, with the title above, and below why numbers are
/// missing: the widest text columns give way, then optional columns go.
std::string table_text(const DataTable&, const Console&);

}  // namespace triplepoint::tui
