// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/cli/commands/plan.h"
#include "triplepoint/search/plan_tables.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

using search::Finalist;

void print_front(tui::Console& console, const PlanOutcome& outcome) {
  std::vector<Finalist> front;
  for (const Finalist& plan : outcome.ranking.ranked)
    if (plan.on_front) front.push_back(plan);
  DataTable table =
      search::ranking_table(outcome.asked.base, front, front.size(), outcome.intervals);
  table.title = "Nothing found is better in time, energy, peak power and peak temperature";
  console.print("\n" + tui::table_text(table, console));
}

void print_plan(tui::Console& console, const PlanOutcome& outcome, const DataTable& table,
                const std::vector<std::string>& sentences) {
  console.print(tui::table_text(table, console));
  tui::print_wrapped(console, fmt::format("All plans: {}.", defaults_of(outcome)));
  for (const std::string& note : readings_of(outcome))
    tui::print_wrapped(console, "note: " + note);
  for (const std::string& text : sentences)
    tui::print_wrapped(console, text);
  if (outcome.asked.pareto) print_front(console, outcome);
}

}  // namespace

Result<void> print_outcome(tui::Console& console, const spec::Library& library,
                           const PlanOutcome& outcome, const std::vector<std::string>& sentences,
                           const FormatFlag& format, const std::optional<std::string>& explain) {
  const DataTable table = search::ranking_table(outcome.asked.base, outcome.ranking.ranked,
                                                outcome.asked.top, outcome.intervals);
  std::optional<DataTable> comparison;
  if (explain) {
    const auto [a, b] =
        TPT_TRY(study::explained_plans(library, outcome.asked, outcome.ranking, *explain));
    comparison = search::comparison_table(a, b);
  }
  if (format.is_json()) {
    print_json(console, plan_json(outcome, comparison));
  } else if (format.is_csv()) {
    console.print(table_csv(comparison ? *comparison : table));
  } else {
    print_plan(console, outcome, table, sentences);
    if (comparison) console.print("\n" + tui::table_text(*comparison, console));
  }
  return {};
}

}  // namespace triplepoint::cli
