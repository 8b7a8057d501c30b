// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::telemetry {

/// What a file says: in UTF-8, without blank lines and messages (WARNING) before the first of it.
std::string plain_text(std::string text);

/// How the cells of a table are told apart.
struct TableForm {
  char separator = ',';        // ' ': any blanks
  bool decimal_comma = false;  // 62,0 is a number
};

/// Cells of a line, without blanks and quotes around them; a separator inside of quotes is none.
void split_cells(std::string_view line, const TableForm&, std::vector<std::string_view>& cells);

/// The next line, without its end; moves on behind it. False at the end.
bool next_line(std::string_view& text, std::string_view& line);

/// Titles and units of a table, and where its rows begin.
struct TableHead {
  TableForm form;
  std::vector<std::string> titles, units;  // units: of a line below the titles, or empty
  std::string_view line;                   // of the titles
  std::string_view rows;                   // what follows
};
/// The first line that may be one of titles: "timestamp, index, power.draw [W]", "# gpu pwr gtemp",
/// "#Entity POWER TMPTR".
TableHead head_of(std::string_view text);

}  // namespace triplepoint::telemetry
