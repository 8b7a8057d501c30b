// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/result_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/answers/labels.h"
#include "triplepoint/calibrate/tables/score_summary.h"
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

namespace {

using calibrate::ErrorSummary;
using calibrate::ScoredRow;
using calibrate::ScoreSummary;
using calibrate::TableScores;
using calibrate::ValidatedFile;

std::string cell(std::optional<double> value, int digits = 1) {
  if (!value || !std::isfinite(*value)) return "";
  return fmt::format("{:.{}f}", *value, digits);
}

void add_summary(DataTable& table, const std::string& name, const ErrorSummary& summary) {
  table.add({name, std::to_string(summary.rows), cell(summary.median_abs), cell(summary.mean_abs),
             cell(summary.p90_abs), cell(summary.max_abs), cell(summary.signed_mean),
             cell(summary.rank_correlation, 2)});
}

/// Families of one kind of quantity, and all of them together.
void print_part(Console& console, const std::string& title, const std::string& unit,
                const std::map<std::string, ErrorSummary>& families, const ErrorSummary& whole) {
  if (whole.rows == 0) return;
  console.print(fmt::format("{}\n", console.styled(title + ", error in " + unit, Style::bold)));
  DataTable table = text_table({{"family", Align::left},
                                {"rows"},
                                {"median"},
                                {"mean"},
                                {"p90"},
                                {"max"},
                                {"signed mean"},
                                {"rank"}});
  for (const auto& [name, summary] : families)
    add_summary(table, name, summary);
  if (families.size() > 1) add_summary(table, "all", whole);
  console.print(table_text(table, console) + "\n");
}

void print_fit(Console& console, const calibrate::FitVerdicts& fit) {
  const int64_t ran = fit.ran_and_fits + static_cast<int64_t>(fit.false_oom.size());
  const int64_t failed = fit.failed_and_does_not_fit + static_cast<int64_t>(fit.false_fit.size());
  if (ran > 0 && !fit.false_oom.empty())
    console.print(fmt::format("{} of {} jobs that ran do not fit by our estimate\n",
                              fit.false_oom.size(), ran));
  if (failed > 0)
    console.print(fmt::format("{} of {} jobs that ran out of memory fit by our estimate\n",
                              fit.false_fit.size(), failed));
}

/// Reasons with how many rows they concern, most frequent first. What the rows' own names and
/// numbers tell apart is one reason.
void print_skipped(Console& console, const TableScores& all) {
  if (all.skipped.empty()) return;
  std::map<std::string, std::vector<const calibrate::SkippedRow*>> reasons;
  for (const calibrate::SkippedRow& row : all.skipped) {
    std::string reason = row.reason;
    const std::size_t at = row.row_id.empty() ? std::string::npos : reason.find(row.row_id);
    if (at != std::string::npos) reason.replace(at, row.row_id.size(), "...");
    reasons[reason].push_back(&row);
  }
  std::vector<std::pair<std::string, std::vector<const calibrate::SkippedRow*>>> sorted(
      reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  constexpr std::size_t shown = 12;
  console.print(fmt::format("Skipped rows: {}\n", all.skipped.size()));
  const std::size_t width = console.abilities().width.value_or(120);
  for (std::size_t i = 0; i < std::min(shown, sorted.size()); ++i)
    console.print(wrap(fmt::format("{:>6}  {} (as {})", sorted[i].second.size(), sorted[i].first,
                                   sorted[i].second.front()->row_id),
                       width, "        ") +
                  "\n");
  if (sorted.size() > shown)
    console.print(fmt::format("        and {} more reasons; --format json lists every row\n",
                              sorted.size() - shown));
}

void print_worst(Console& console, const TableScores& all) {
  std::vector<const ScoredRow*> rows;
  for (const ScoredRow& row : all.scored)
    if (std::isfinite(calibrate::error_of(row)) && !calibrate::is_temperature(row))
      rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const ScoredRow* a, const ScoredRow* b) {
    return std::abs(a->error_pct()) > std::abs(b->error_pct());
  });
  rows.resize(std::min<std::size_t>(rows.size(), 5));
  if (rows.empty()) return;
  console.print("\nFarthest off\n");
  DataTable table = text_table({{"row", Align::left},
                                {"quantity", Align::left},
                                {"measured"},
                                {"predicted"},
                                {"error %"},
                                {"assumed", Align::left, 1}});
  for (const ScoredRow* row : rows)
    table.add({row->row_id, row->quantity, fmt::format("{:.4g}", row->measured),
               fmt::format("{:.4g}", row->predicted), cell(row->error_pct()),
               fmt::format("{}", fmt::join(row->notes, "; "))});
  console.print(table_text(table, console));
}

}  // namespace

void print_validation(Console& console, const std::vector<calibrate::ValidatedFile>& files) {
  const TableScores all = calibrate::all_scores(files);
  const ScoreSummary summary = calibrate::summarize(all);
  for (const ValidatedFile& file : files)
    console.print(fmt::format("{}: a table of kind \"{}\", {} rows\n", file.file, file.scores.table,
                              file.scores.rows));
  console.print(fmt::format("{} rows, {} predicted, {} skipped\n\n", all.rows,
                            summary.predicted_rows, all.skipped.size()));
  print_part(console, "Speed and power", "%", summary.families, summary.speed);
  print_part(console, "Memory", "%", summary.memory_families, summary.memory);
  print_part(console, "Temperature", "°C", summary.temperature_families, summary.temperature);
  print_fit(console, all.fit);
  print_skipped(console, all);
  print_worst(console, all);
}

}  // namespace triplepoint::tui
