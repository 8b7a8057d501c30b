// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/fit_text.h"

#include <fmt/format.h>

#include "triplepoint/tui/text_table.h"

namespace triplepoint::tui {
namespace {

using calibrate::FitLine;
using calibrate::FitReport;
using calibrate::Residuals;

std::string cell(const Residuals& residuals) {
  if (residuals.rows == 0) return "";
  return fmt::format("{:.1f} / {:.1f}", residuals.median_pct, residuals.p90_pct);
}

void print_report(Console& console, const FitReport& report, bool before) {
  TextTable numbers(
      {{report.subject, TextTable::Align::left}, {"value"}, {"", TextTable::Align::left}});
  for (std::size_t i = 0; i < report.numbers.size(); ++i)
    numbers.add_row({report.numbers[i].key, report.texts[i],
                     report.numbers[i].on_bound ? "at the end of its range" : ""});
  console.print(numbers.text(console) + "\n");
  console.print(fmt::format("Errors in {}, median / 90th percentile\n", report.unit));
  TextTable lines({{"class", TextTable::Align::left},
                   {"rows of", TextTable::Align::left},
                   {"rows"},
                   {"fitted"},
                   {"held out"},
                   {before ? "before" : "without"}});
  for (const FitLine& line : report.lines)
    if (line.seen.rows > 0)
      lines.add_row({line.part, line.rows_of, std::to_string(line.seen.rows), cell(line.seen),
                     cell(line.held_out), cell(line.without)});
  console.print(lines.text(console) + "\n");
}

}  // namespace

void print_fits(Console& console, const std::vector<calibrate::FitReport>& reports, bool before) {
  for (const FitReport& report : reports)
    print_report(console, report, before);
  if (!before)
    console.print(
        "held out: by shape or size, in 5 folds; without: with the numbers fitted on "
        "others\n");
}

}  // namespace triplepoint::tui
