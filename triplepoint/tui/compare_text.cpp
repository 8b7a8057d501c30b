// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/compare_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/tui/table_text.h"

namespace triplepoint::tui {
namespace {

using report::ComparedRow;
using report::ComparedSection;
using report::Comparison;
using report::StudyComparison;

Style style_of(const ComparedRow& row, std::size_t side) {
  const int judgement = report::judgement(row, side);
  return judgement > 0 ? Style::good : judgement < 0 ? Style::bad : Style::plain;
}

DataTable table_for(const std::vector<std::string>& names, const char* first) {
  std::vector<TextColumn> columns = {{first, Align::left}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns.push_back({names[i], Align::right});
    if (i > 0) columns.push_back({"difference", Align::right});
  }
  return text_table(std::move(columns));
}

void add_values(std::vector<DataCell>& cells, const ComparedRow& row) {
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    std::string value = row.value_text(i);
    if (row.values[i] && !row.unit.empty()) value += " " + row.unit;
    cells.emplace_back(std::move(value));
    if (i > 0) cells.emplace_back(report::difference_text(row, i), style_of(row, i));
  }
}

void print_sentences(Console& console, const std::vector<std::string>& sentences) {
  const std::size_t width = console.abilities().width.value_or(100);
  for (const std::string& sentence : sentences)
    console.print(wrap("- " + sentence, width, "  ") + "\n");
  console.print("\n");
}

void add_verdicts(std::vector<DataCell>& cells, const std::vector<std::string>& verdicts) {
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    cells.emplace_back(verdicts[i].empty() ? "not there" : verdicts[i], Style::dim);
    if (i > 0) cells.emplace_back("");
  }
}

bool is_shown(const ComparedSection& section, bool all) {
  return all || (section.name != "stages" && section.name != "steps" && section.name != "ledger" &&
                 section.name != "throttle");
}

void print_table(Console& console, const Comparison& comparison, bool all) {
  std::vector<std::string> names;
  for (const report::Side& side : comparison.sides)
    names.push_back(side.name);
  DataTable table = table_for(names, "");
  const std::size_t columns = 2 * names.size();
  for (const ComparedSection& section : comparison.sections) {
    if (!is_shown(section, all)) continue;
    std::vector<DataCell> heading(columns, DataCell(""));
    heading[0] = DataCell(section.title, Style::bold);
    table.add(std::move(heading));
    for (const ComparedRow& row : section.rows) {
      std::vector<DataCell> cells = {"  " + row.title};
      add_values(cells, row);
      table.add(std::move(cells));
    }
  }
  console.print(table_text(table, console));
}

/// Jobs with most change first, unless all are asked for.
void print_table(Console& console, const StudyComparison& comparison, bool all) {
  constexpr std::size_t most_rows = 20;
  std::vector<std::pair<double, const report::ComparedJob*>> jobs;
  for (const report::ComparedJob& job : comparison.jobs) {
    const ComparedRow* row = job.numbers.find("step_time_s");
    const auto by = row != nullptr ? report::difference(*row, 1) : std::nullopt;
    jobs.emplace_back(by && by->relative ? std::abs(*by->relative) : -1, &job);
  }
  const std::size_t shown = all ? jobs.size() : std::min(most_rows, jobs.size());
  if (!all)
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  DataTable table = table_for(comparison.names, "job, step time");
  for (std::size_t i = 0; i < shown; ++i) {
    std::vector<DataCell> cells = {jobs[i].second->name};
    const ComparedRow* row = jobs[i].second->numbers.find("step_time_s");
    if (row != nullptr)
      add_values(cells, *row);
    else
      add_verdicts(cells, jobs[i].second->verdicts);
    table.add(std::move(cells));
  }
  console.print(table_text(table, console));
  if (shown < jobs.size())
    console.print(
        fmt::format("({} more jobs changed less; --all shows them)\n", jobs.size() - shown));
}

}  // namespace

void print_comparison(Console& console, const report::Comparison& comparison, bool all) {
  print_sentences(console, report::sentences_of(comparison));
  print_table(console, comparison, all);
}

void print_comparison(Console& console, const report::StudyComparison& comparison, bool all) {
  print_sentences(console, report::sentences_of(comparison));
  print_table(console, comparison, all);
}

}  // namespace triplepoint::tui
