// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/result_text.h"

#include <fmt/format.h>

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

void print_trace_report(Console& console, const trace_report::TraceReport& report,
                        const std::vector<const DataTable*>& tables, bool asked_for) {
  for (const std::string& line : report.headlines)
    console.print(printable(line) + "\n");
  bool first = report.headlines.empty();
  for (const DataTable* table : tables) {
    if (table->rows.empty() && !asked_for) continue;
    if (!first) console.print("\n");
    first = false;
    console.print(table->rows.empty() ? table->title + ": nothing\n" : table_text(*table, console));
  }
  for (const std::string& file : report.written)
    console.print(fmt::format("wrote {}\n", file));
  for (const std::string& remark : report.remarks)
    console.print("note: " + printable(remark) + "\n");
}

}  // namespace triplepoint::tui
