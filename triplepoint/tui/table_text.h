// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "triplepoint/base/data_table.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

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
