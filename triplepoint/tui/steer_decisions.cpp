// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/steer_decisions.h"

#include <cmath>

#include <fmt/format.h>

#include "triplepoint/tui/text_table.h"

namespace triplepoint::tui {
namespace {

std::string clock_text(Seconds time) {
  const int64_t seconds = std::llround(time / unit::s);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

void print_line(Console& console, const std::string& text) {
  console.print(wrap(text, console.abilities().width.value_or(100), "        ") + "\n");
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

}  // namespace triplepoint::tui
