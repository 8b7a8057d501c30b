// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/advice_text.h"

#include <cmath>

#include <fmt/format.h>

#include "triplepoint/report/findings/labels.h"
#include "triplepoint/tui/table_text.h"

namespace triplepoint::tui {
namespace {

std::string clock_text(Seconds time) {
  const int64_t seconds = std::llround(time / unit::s);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

void print_line(Console& console, const std::string& text) {
  print_wrapped(console, text, "        ");
}

/// What is left again for what was seen before is said once.
void print_thoughts(Console& console, const std::vector<advise::Decision>& decisions) {
  for (std::size_t i = 0; i < decisions.size();) {
    const advise::Decision& decision = decisions[i];
    std::size_t end = i + 1;
    const auto repeats = [&](const advise::Decision& next) {
      return next.kind == advise::MoveKind::leave && decision.kind == next.kind;
    };
    while (end < decisions.size() && repeats(decisions[end]) &&
           decisions[end].seen == decision.seen)
      ++end;
    const std::string again = end - i > 1
                                  ? fmt::format(" ({} looks more, the last at {})", end - i - 1,
                                                clock_text(decisions[end - 1].time))
                                  : "";
    print_line(console, fmt::format("{:>6}  {}", clock_text(decision.time), decision.seen));
    print_line(console, fmt::format("        -> {}: {}{}", decision.action,
                                    decisions[end - 1].reason, again));
    i = end;
  }
}

}  // namespace

void print_decisions(Console& console, const advise::SteeredScenario& scenario, double margin) {
  const advise::SteerOutcome& outcome = scenario.outcome;
  console.print(console.styled(scenario.name, Style::bold) + ": " + scenario.about + "\n");
  print_line(console, fmt::format("{:>6}  both begin with {}", "0:00", outcome.initial));
  print_thoughts(console, outcome.decisions);
  if (outcome.decisions.empty()) print_line(console, "        nothing was seen to change");
  for (const advise::Checked& checked : outcome.checked)
    print_line(console, fmt::format("        checked: to {} would have {} {:.2f} %", checked.what,
                                    checked.ratio > 1 ? "cost" : "gained",
                                    100 * std::abs(checked.ratio - 1)));
  if (!outcome.checked.empty() && !outcome.leaving_was_right(margin))
    print_line(console, "        so leaving it was wrong");
  console.print("\n");
}

void print_thermal_groups(Console& console, const advise::GroupedMachine& seen) {
  console.print(table_text(advise::groups_table(seen), console));
  print_wrapped(console, advise::grouping_text(seen.groups));
  if (seen.groups.groups.size() > 1)
    print_wrapped(console, "Cold first: CUDA_VISIBLE_DEVICES=" + advise::slots_text(seen));
}

void print_placements(Console& console, const spec::Job& job, const advise::GroupedMachine& seen,
                      const advise::PlaceResult& result) {
  console.print(
      fmt::format("{}, {}\n\n", report::group_label(job), report::configuration_label(job)));
  print_thermal_groups(console, seen);
  console.print("\n" + table_text(advise::placements_table(result), console));
  if (result.placements.size() > 1) {
    console.print("\n" + table_text(advise::reasons_table(result), console));
    if (const std::string text = advise::transfer_text(result); !text.empty())
      print_wrapped(console, text);
    print_wrapped(console, counts_text(result.counts));
  }
  for (const std::string& note : result.notes)
    print_wrapped(console, "Note: " + note + ".");
  console.print("\nTo launch the optimal placement\n");
  for (const std::string& line : advise::launch_lines(result.placements.back().job))
    print_wrapped(console, "  " + line);
}

}  // namespace triplepoint::tui
