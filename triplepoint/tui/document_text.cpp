// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/document_text.h"

#include <algorithm>

namespace triplepoint::tui {
namespace {

using answers::Remark;

void print_remark(Console& console, const Remark& remark) {
  switch (remark.kind) {
    case Remark::Kind::finding:
      return print_wrapped(console, "- " + remark.text);
    case Remark::Kind::note:
      return print_wrapped(console, "note: " + remark.text);
    case Remark::Kind::warning:
      return print_wrapped(console, "warning: " + remark.text);
    case Remark::Kind::command:
      return console.print("  " + printable(remark.text) + "\n");
  }
}

bool has_no_rows(const DataTable& table) {
  return table.rows.empty();
}

}  // namespace

void print_section(Console& console, const answers::Section& section) {
  const bool is_named = !section.tables.empty() && !section.tables.front().title.empty();
  console.print("\n");
  if (!section.title.empty() && !is_named)
    console.print(console.styled(section.title, Style::bold) + "\n");
  bool first = true;
  for (const DataTable& table : section.tables) {
    if (has_no_rows(table)) continue;
    console.print((first ? "" : "\n") + table_text(table, console));
    first = false;
  }
  for (const Remark& remark : section.remarks)
    print_remark(console, remark);
}

std::string key_figures_text(const Console& console,
                             const std::vector<answers::KeyFigure>& figures) {
  DataTable table = text_table({{"", Align::left}, {"", Align::right}, {"", Align::left}});
  for (const answers::KeyFigure& figure : figures)
    table.add({figure.label, figure.value, figure.remark});
  const std::string text = table_text(table, console);
  return text.substr(text.find('\n') + 1);  // there are no headings
}

void print_document(Console& console, const answers::Document& document) {
  if (!document.title.empty()) console.print(console.styled(document.title, Style::bold) + "\n");
  if (!document.verdict.empty()) print_wrapped(console, document.verdict, "");
  if (!document.facts.empty()) print_wrapped(console, document.facts, "");
  if (!document.key_figures.empty())
    console.print("\n" + key_figures_text(console, document.key_figures));
  for (const answers::Section& section : document.sections)
    if (!section.remarks.empty() || !std::ranges::all_of(section.tables, has_no_rows))
      print_section(console, section);
}

}  // namespace triplepoint::tui
