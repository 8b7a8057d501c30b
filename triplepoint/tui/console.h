// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

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

  void print(std::string_view text);
  void warn(std::string_view text) { *err_ << text; }
  void flush();
  bool out_is_good() const { return out_->good(); }
  /// The reader of our output has left, as in `triplepoint list models | head -1`.
  bool reader_left() const { return reader_left_; }
  const Abilities& abilities() const { return abilities_; }

  /// The text in a style, where there is colour; otherwise the text.
  std::string styled(std::string_view text, Style style) const;

 private:
  std::ostream* out_;
  std::ostream* err_;
  Abilities abilities_;
  bool reader_left_ = false;
};

/// Standard output and error of this process. Colour only on a terminal, never with NO_COLOR set or
/// TERM=dumb.
Console process_console();

}  // namespace triplepoint::tui
