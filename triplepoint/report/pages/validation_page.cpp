// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/validation_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

using answers::Section;
using calibrate::ErrorSummary;
using calibrate::ScoredRow;
using calibrate::ScoreSummary;
using calibrate::TableScores;

constexpr std::size_t fewest_points = 4;  // of a chart
constexpr std::size_t most_reasons = 12;

/// "step_time_s" as a person says it: "step time (s)".
std::string words_of(const std::string& quantity) {
  static const std::map<std::string, std::string> known = {
      {"step_time_s", "step time (s)"},
      {"tokens_per_s_per_gpu", "speed (tokens/s per GPU)"},
      {"tokens_per_s_total", "speed (tokens/s)"},
      {"seqs_per_s_total", "speed (sequences/s)"},
      {"tflops_per_gpu", "speed (TFLOP/s per GPU)"},
      {"mfu_pct", "MFU (%)"},
      {"mem_gib", "memory (GiB)"},
      {"mem_reserved_gib", "reserved memory (GiB)"},
      {"mem_standing_gib", "standing memory (GiB)"}};
  if (const auto found = known.find(quantity); found != known.end()) return found->second;
  std::string words = quantity;
  std::ranges::replace(words, '_', ' ');
  return words;
}

enum class Place { inside, outside, unknown };  // of the interval
Place place_of(const ScoredRow& row) {
  if (!row.interval) return Place::unknown;
  const bool inside = row.interval->low <= row.measured && row.measured <= row.interval->high;
  return inside ? Place::inside : Place::outside;
}
const char* words_of(Place place) {
  return place == Place::inside ? "inside" : place == Place::outside ? "outside" : "no interval";
}
const char* style_of(Place place) {
  return place == Place::inside ? "s2" : place == Place::outside ? "s3" : "s6";
}

bool is_ratio(const ScoredRow& row) {
  return row.measured > 0 && row.predicted > 0 && !calibrate::is_temperature(row);
}

/// It ran, and has no predicted time: it does not fit by our estimate.
bool is_denied(const ScoredRow& row) {
  return row.measured > 0 && row.predicted == 0 && !calibrate::is_temperature(row);
}

struct NamedRow {
  std::string name;  // no other row of the page has it
  const ScoredRow* row = nullptr;
};
using NamedRows = std::vector<NamedRow>;

NamedRows named_rows(const TableScores& all) {
  std::map<std::string, int> seen;
  NamedRows rows;
  for (const ScoredRow& row : all.scored) {
    const int count = ++seen[row.row_id];
    rows.push_back({count == 1 ? row.row_id : fmt::format("{} ({})", row.row_id, count), &row});
  }
  return rows;
}

std::map<std::string, NamedRows> rows_by(const NamedRows& rows, std::string ScoredRow::*word) {
  std::map<std::string, NamedRows> groups;
  for (const NamedRow& row : rows)
    groups[(*row.row).*word].push_back(row);
  return groups;
}

/// Share of the rows that have an interval; nothing if none has.
std::optional<double> coverage(const NamedRows& rows) {
  double inside = 0, known = 0;
  for (const NamedRow& each : rows) {
    known += place_of(*each.row) != Place::unknown ? 1 : 0;
    inside += place_of(*each.row) == Place::inside ? 1 : 0;
  }
  if (known == 0) return std::nullopt;
  return inside / known;
}

// ---- by family

/// Measured over predicted: of eight in ten rows, and where their intervals say that they are.
std::optional<RangeRow> range_row(const std::string& family, const NamedRows& rows) {
  std::vector<double> ratios, lows, highs;
  for (const NamedRow& each : rows) {
    const ScoredRow& row = *each.row;
    if (!is_ratio(row) || calibrate::is_memory(row)) continue;
    ratios.push_back(row.measured / row.predicted);
    if (!row.interval) continue;
    lows.push_back(row.interval->low / row.predicted);
    highs.push_back(row.interval->high / row.predicted);
  }
  if (ratios.empty()) return std::nullopt;
  RangeRow range{.label = family,
                 .low = quantile(ratios, 0.1),
                 .middle = median(ratios),
                 .high = quantile(ratios, 0.9)};
  if (!lows.empty()) range.band = {median(lows), median(highs)};
  range.text = fmt::format("{} rows", whole(static_cast<int64_t>(ratios.size())));
  range.hint =
      fmt::format("{}: median {}, eight in ten from {} to {}", family, significant(range.middle),
                  significant(range.low), significant(range.high));
  return range;
}

answers::Figure sources_figure(const std::map<std::string, NamedRows>& families) {
  RangeChart chart{"Measured over predicted, by family", "measured over predicted", {}};
  DataTable table = text_table(
      {{"family", Align::left}, {"10 %"}, {"median"}, {"90 %"}, {"interval from"}, {"to"}});
  for (const auto& [family, rows] : families) {
    const auto range = range_row(family, rows);
    if (!range) continue;
    table.add({family, significant(range->low), significant(range->middle),
               significant(range->high), range->band ? significant(range->band->low) : "–",
               range->band ? significant(range->band->high) : "–"});
    chart.rows.push_back(*range);
  }
  if (chart.rows.empty()) return {};
  return {"sources",
          chart.title,
          "At 1 prediction and measurement agree. Dot: median; line: eight in ten rows; band: the "
          "interval that predictions of the family promise for eight in ten.",
          chart,
          {},
          std::move(table)};
}

std::string cell(const std::optional<double>& value, int decimals = 1) {
  return value && std::isfinite(*value) ? fixed(*value, decimals) : "–";
}

/// Families of one kind of quantity, and all of them together.
DataTable errors_table(const char* title, const std::map<std::string, ErrorSummary>& errors,
                       const ErrorSummary& all, const std::map<std::string, NamedRows>& families) {
  DataTable table = text_table({{"family", Align::left},
                                {"rows"},
                                {"median"},
                                {"mean"},
                                {"90 %"},
                                {"largest"},
                                {"signed mean"},
                                {"in the interval", Align::right, 1},
                                {"rank in sweeps", Align::right, 1}});
  table.title = title;
  const auto add = [&](const std::string& family, const ErrorSummary& error) {
    const auto found = families.find(family);
    const auto inside = found == families.end() ? std::nullopt : coverage(found->second);
    table.add({family, whole(error.rows), cell(error.median_abs), cell(error.mean_abs),
               cell(error.p90_abs), cell(error.max_abs), cell(error.signed_mean),
               inside ? percent(*inside) : "–", cell(error.rank_correlation, 2)});
  };
  for (const auto& [family, error] : errors)
    add(family, error);
  if (errors.size() > 1) add("all", all);
  return table;
}

// ---- every row

answers::Figure scatter_figure(const std::string& quantity, const NamedRows& rows) {
  const std::string words = words_of(quantity);
  answers::ScatterChart chart{.title = "Predicted against measured: " + words,
                              .x_unit = "measured " + words,
                              .y_unit = "predicted " + words,
                              .colour_unit = "",
                              .diagonal = true};
  for (const NamedRow& each : rows) {
    const ScoredRow& row = *each.row;
    if (!is_ratio(row)) continue;
    chart.points.push_back({.x = row.measured,
                            .y = row.predicted,
                            .colour = std::nullopt,
                            .job = each.name,
                            .hint = each.name,
                            .label = "",
                            .style = style_of(place_of(row))});
  }
  if (chart.points.size() < fewest_points) return {};
  return {"scatter-" + quantity,
          chart.title,
          "Line: predicted as measured; dashed: twice and half. Teal: in the 80 % interval; red: "
          "outside; grey: it has none.",
          chart,
          {},
          {}};
}

/// Sources, then the quantities, those with most rows first.
std::vector<answers::Figure> figures_of(const NamedRows& rows,
                                        const std::map<std::string, NamedRows>& families) {
  const auto quantities = rows_by(rows, &ScoredRow::quantity);
  std::vector<std::pair<std::string, NamedRows>> sorted(quantities.begin(), quantities.end());
  std::ranges::stable_sort(
      sorted, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::vector<answers::Figure> figures = {sources_figure(families)};
  for (const auto& [quantity, members] : sorted)
    figures.push_back(scatter_figure(quantity, members));
  std::erase_if(figures, [](const answers::Figure& figure) { return figure.title.empty(); });
  return figures;
}

DataTable rows_table(const NamedRows& rows) {
  DataTable table = text_table({{"row", Align::left},
                                {"family", Align::left, 2},
                                {"quantity", Align::left},
                                {"measured"},
                                {"predicted"},
                                {"error (%)"},
                                {"interval", Align::left, 1},
                                {"assumed", Align::left, 1}});
  for (const NamedRow& each : rows) {
    const ScoredRow& row = *each.row;
    table.add(
        {each.name, row.family, words_of(row.quantity), significant(row.measured, 4),
         is_denied(row) ? "does not fit" : significant(row.predicted, 4), cell(row.error_pct()),
         row.interval ? fmt::format("{} to {}", significant(row.interval->low),
                                    significant(row.interval->high))
                      : "–",
         fmt::format("{}", fmt::join(row.notes, "; "))},
        each.name);
  }
  return table;
}

/// Those that ran and do not fit by our estimate first, then by the ratio.
NamedRows worst_of(NamedRows rows, std::size_t count) {
  std::erase_if(rows,
                [](const NamedRow& row) { return !is_ratio(*row.row) && !is_denied(*row.row); });
  const auto off = [](const NamedRow& row) {
    return is_denied(*row.row) ? HUGE_VAL
                               : std::abs(std::log(row.row->predicted / row.row->measured));
  };
  std::ranges::stable_sort(rows, std::greater(), off);
  rows.resize(std::min(rows.size(), count));
  return rows;
}

/// Reasons with how many rows they concern, most frequent first. What the rows' own names and
/// numbers tell apart is one reason.
DataTable skipped_table(const TableScores& all) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const calibrate::SkippedRow& row : all.skipped) {
    std::string reason = row.reason;
    const std::size_t at = row.row_id.empty() ? std::string::npos : reason.find(row.row_id);
    if (at != std::string::npos) reason.replace(at, row.row_id.size(), "...");
    reasons[reason].push_back(row.row_id);
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> sorted(reasons.begin(),
                                                                       reasons.end());
  std::ranges::stable_sort(
      sorted, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  sorted.resize(std::min(sorted.size(), most_reasons));
  DataTable table = text_table({{"reason", Align::left}, {"rows"}, {"one of them", Align::left}});
  table.columns.front().whole = true;
  for (const auto& [reason, rows] : sorted)
    table.add({reason, whole(static_cast<int64_t>(rows.size())), rows.front()});
  return table;
}

// ---- what it says

std::string worst_source_sentence(const std::map<std::string, ErrorSummary>& families) {
  const auto worst = std::ranges::max_element(families, [](const auto& a, const auto& b) {
    return a.second.median_abs.value_or(0) < b.second.median_abs.value_or(0);
  });
  if (families.size() < 2 || !worst->second.median_abs) return "";
  const double bias = worst->second.signed_mean.value_or(0);
  return fmt::format("{} is farthest off: median {} % over {} rows, on average {} % too {}.",
                     worst->first, cell(worst->second.median_abs), whole(worst->second.rows),
                     cell(std::abs(bias)), bias > 0 ? "high" : "low");
}

std::string coverage_sentence(const NamedRows& rows,
                              const std::map<std::string, NamedRows>& families) {
  const auto all = coverage(rows);
  if (!all) return "";
  std::string text = fmt::format(
      "{} of the measured values lie in their interval, which is made for 80 %", percent(*all));
  std::pair<double, std::string> least = {1, ""};
  for (const auto& [family, members] : families)
    if (const auto share = coverage(members); share && members.size() >= 10)
      least = std::min(least, {*share, family});
  if (!least.second.empty())
    text += fmt::format("; fewest of {}: {}", least.second, percent(least.first));
  return text + ".";
}

std::vector<std::string> validation_sentences(const TableScores& all, const ScoreSummary& summary,
                                              const NamedRows& rows,
                                              const std::map<std::string, NamedRows>& families) {
  std::vector<std::string> sentences = {worst_source_sentence(summary.families),
                                        coverage_sentence(rows, families)};
  const std::size_t ran = as_size(all.fit.ran_and_fits) + all.fit.false_oom.size();
  const std::size_t failed = as_size(all.fit.failed_and_does_not_fit) + all.fit.false_fit.size();
  if (ran > 0)
    sentences.push_back(fmt::format(
        "{} of {} jobs that ran do not fit by our estimate{}.", all.fit.false_oom.size(),
        whole(static_cast<int64_t>(ran)),
        failed == 0 ? ""
                    : fmt::format("; {} of {} that ran out of memory do", all.fit.false_fit.size(),
                                  whole(static_cast<int64_t>(failed)))));
  if (!all.skipped.empty())
    sentences.push_back(
        fmt::format("{} rows are not predicted; the reasons are below.", all.skipped.size()));
  std::erase_if(sentences, [](const std::string& text) { return text.empty(); });
  return sentences;
}

answers::KeyFigure error_figure(const char* name, const ErrorSummary& error, const char* unit) {
  return {name, fmt::format("{} {}", cell(error.median_abs), unit),
          fmt::format("median error of {} values; 90 % are below {} {}", whole(error.rows),
                      cell(error.p90_abs), unit)};
}

std::vector<answers::KeyFigure> key_figures_of(const ScoreSummary& summary, const NamedRows& rows) {
  std::vector<answers::KeyFigure> figures;
  if (summary.speed.rows > 0)
    figures.push_back(error_figure("speed and power", summary.speed, "%"));
  if (summary.memory.rows > 0) figures.push_back(error_figure("memory", summary.memory, "%"));
  if (summary.temperature.rows > 0)
    figures.push_back(error_figure("temperature", summary.temperature, "°C"));
  if (const auto share = coverage(rows))
    figures.push_back({"in the interval", percent(*share), "80 % are promised"});
  if (summary.speed.rank_correlation)
    figures.push_back({"order in sweeps", cell(summary.speed.rank_correlation, 2),
                       "rank correlation of predicted and measured"});
  return figures;
}

/// What the page's script filters by.
Json rows_data(const NamedRows& rows) {
  return mapped<Json>(rows, [&](const NamedRow& each) -> Json {
    return {{"name", each.name},
            {"model", each.row->family},
            {"machine", words_of(each.row->quantity)},
            {"layout", ""},
            {"variant", ""},
            {"microbatch", 0},
            {"verdict", words_of(place_of(*each.row))},
            {"page", ""}};
  });
}

Section errors_section(const ScoreSummary& summary,
                       const std::map<std::string, NamedRows>& families) {
  Section section{"by-family", "By family"};
  const auto add = [&](const char* title, const auto& errors, const ErrorSummary& all) {
    if (all.rows > 0) section.tables.push_back(errors_table(title, errors, all, families));
  };
  add("Speed and power: error in %", summary.families, summary.speed);
  add("Memory: error in %", summary.memory_families, summary.memory);
  add("Temperature: error in °C", summary.temperature_families, summary.temperature);
  return section;
}

std::string facts_of(const std::vector<calibrate::ValidatedFile>& files, const TableScores& all,
                     const ScoreSummary& summary) {
  std::string facts = fmt::format("{} rows, {} predicted, {} skipped.", whole(all.rows),
                                  whole(summary.predicted_rows), all.skipped.size());
  for (const calibrate::ValidatedFile& file : files)
    facts += fmt::format(" {}: a table of kind \"{}\", {} rows.", file.file, file.scores.table,
                         whole(file.scores.rows));
  return facts;
}

}  // namespace

answers::Document validation_document(const std::vector<calibrate::ValidatedFile>& files,
                                      std::size_t worst) {
  const TableScores all = calibrate::all_scores(files);
  const ScoreSummary summary = calibrate::summarize(all);
  const NamedRows rows = named_rows(all);
  const auto families = rows_by(rows, &ScoredRow::family);
  answers::Document document{.kind = "validation",
                             .title = "Predicted against measured",
                             .facts = facts_of(files, all, summary)};
  document.key_figures = key_figures_of(summary, rows);
  Section findings{"findings", "Findings"};
  for (std::string& sentence : validation_sentences(all, summary, rows, families))
    findings.remarks.push_back({std::move(sentence)});
  document.sections = {{.id = "charts", .title = "", .figures = figures_of(rows, families)},
                       std::move(findings),
                       errors_section(summary, families)};
  const auto add = [&](const char* id, const char* title, DataTable table) {
    if (!table.rows.empty())
      document.sections.push_back({.id = id, .title = title, .tables = {std::move(table)}});
  };
  add("misses", "Largest misses", rows_table(worst_of(rows, worst)));
  add("skipped", "Not predicted", skipped_table(all));
  document.numbers = calibrate::validation_json(files);
  return document;
}

std::string validation_page(const std::vector<calibrate::ValidatedFile>& files, std::size_t worst) {
  const TableScores all = calibrate::all_scores(files);
  const NamedRows rows = named_rows(all);
  answers::Document document = validation_document(files, worst);
  document.sections.push_back(
      {.id = "jobs", .title = "All rows", .tables = {rows_table(rows)}, .filtered = true});
  return document_page(
      document,
      {{"jobs", rows_data(rows)},
       {"facets", {{"model", "Source"}, {"machine", "Quantity"}, {"verdict", "80 % interval"}}},
       {"noun", "rows"}});
}

}  // namespace triplepoint::report
