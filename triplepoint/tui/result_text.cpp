// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/result_text.h"

#include <fmt/format.h>

#include "triplepoint/answers/labels.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

void print_thermal_groups(Console& console, const advise::GroupedMachine& seen) {
  console.print(table_text(advise::groups_table(seen), console));
  print_wrapped(console, advise::grouping_text(seen));
  if (seen.groups.groups.size() > 1)
    print_wrapped(console, "Cold first: CUDA_VISIBLE_DEVICES=" + advise::slots_text(seen));
}

void print_placements(Console& console, const spec::Job& job, const advise::GroupedMachine& seen,
                      const advise::PlaceResult& result) {
  console.print(
      fmt::format("{}, {}\n\n", answers::group_label(job), answers::configuration_label(job)));
  print_thermal_groups(console, seen);
  console.print("\n" + table_text(advise::placements_table(result), console));
  for (const std::string& text : {advise::gains_text(result), advise::search_text(result)})
    if (!text.empty()) print_wrapped(console, text);
  for (const std::string& note : result.notes)
    print_wrapped(console, "Note: " + note + ".");
  if (result.recommended == 0) return;
  console.print(fmt::format("\nTo launch the {} placement\n", placement_name(result.best())));
  for (const std::string& line : advise::launch_lines(result.best().job))
    print_wrapped(console, "  " + line);
}

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
