// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"

#include "triplepoint/answers/figures.h"

namespace triplepoint::report {

using answers::LegendEntry;

/// The page around a report: style sheet and script of web/, bundled when the program was built.
/// Has the marks {{title}}, {{body}} and {{data}}, each once.
std::string_view page_template();

/// Text as it may stand between tags and inside quoted attributes.
std::string escape(std::string_view text);

/// The opening tag of a drawing whose text is set in 12 units. It is shown at 0.92 to 1.25 times
/// its size, so that the text has 11 to 15 pixels at any width of the page; its box scrolls where
/// less room is left.
std::string svg_begin(double width, double height, std::string_view title);

/// With as many decimals: "26.610"; thousands apart where there are none: "13,751".
std::string fixed(double value, int decimals);

/// As people read it.
std::string cell_text(const DataCell& cell, const DataColumn& column);
/// A caption's table, its numbers as people read them. Cells that look like numbers stand right.
std::string html_table(const DataTable& table, std::string_view caption);

/// A chart with the title that says what it shows, and its numbers folded away below.
struct Drawing {
  std::string id, title, note;     // plain text
  std::string markup;              // SVG, or an empty element which the script fills
  DataTable table;                 // the numbers: screen readers read it, the CSV button saves it
  bool wide = false;               // takes the whole row of the page
  bool shows_table = false;        // its numbers are not folded away
  bool has_compact_table = false;  // its numbers are in the page's data, for the script to write
  bool is_empty = false;           // no number of it is known
};
std::string html_figure(const Drawing& figure);

/// Kicker, title and facts on top of a page; `facts` is markup.
std::string html_header(std::string_view kicker, std::string_view title, std::string_view facts);

std::string html_tiles(const std::vector<answers::KeyFigure>& figures);

/// A heading and what stands below it.
std::string html_section(std::string_view id, std::string_view title, std::string_view inner);
/// A field in which one types what the rows of the page's table must contain.
std::string html_filter();
/// Cards beside each other.
std::string html_figures(const std::vector<Drawing>& figures);

/// Colours and their meanings, above a group of charts. Classes are those of the style sheet.
std::string html_legend(const std::vector<LegendEntry>& entries);

/// A line at the foot of a page: "Made by: triplepoint plan --nodes 4"; nothing without a command.
std::string html_command(std::string_view what, std::string_view command);

/// What the last line of every page from now on says that it was made by, as one types it.
void set_page_command(std::string command);

/// The finished file: the built-in template around title, body and the data for the script. A
/// number and the unit behind it stay on one line.
std::string html_page(std::string_view title, std::string_view body, const Json& data);

}  // namespace triplepoint::report
