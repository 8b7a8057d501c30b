// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/calibrate/tables/score_summary.h"
#include "triplepoint/report/charts/pareto.h"
#include "triplepoint/report/charts/ratio_charts.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

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
  std::replace(words.begin(), words.end(), '_', ' ');
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

Figure sources_figure(const std::map<std::string, NamedRows>& families) {
  RangeChart chart{"Measured over predicted, by family", "measured over predicted", {}};
  DataTable table{{"family", "10 %", "median", "90 %", "interval from", "to"}, {}};
  for (const auto& [family, rows] : families) {
    const auto range = range_row(family, rows);
    if (!range) continue;
    table.add({family, significant(range->low), significant(range->middle),
               significant(range->high), range->band ? significant(range->band->low) : "–",
               range->band ? significant(range->band->high) : "–"});
    chart.rows.push_back(*range);
  }
  return {"sources", chart.title,
          "At 1 prediction and measurement agree. Dot: median; line: eight in ten rows; band: the "
          "interval that predictions of the family promise for eight in ten.",
          chart.rows.empty() ? "" : range_chart_svg(chart), std::move(table)};
}

std::string cell(const std::optional<double>& value, int decimals = 1) {
  return value && std::isfinite(*value) ? fixed(*value, decimals) : "–";
}

DataTable errors_table(const std::map<std::string, ErrorSummary>& errors,
                       const std::map<std::string, NamedRows>& families) {
  DataTable table{{"family", "rows", "median", "mean", "90 %", "largest", "signed mean",
                   "in the interval", "rank in sweeps"},
                  {}};
  for (const auto& [family, error] : errors) {
    const auto found = families.find(family);
    const auto inside = found == families.end() ? std::nullopt : coverage(found->second);
    table.add({family, whole(error.rows), cell(error.median_abs), cell(error.mean_abs),
               cell(error.p90_abs), cell(error.max_abs), cell(error.signed_mean),
               inside ? percent(*inside) : "–", cell(error.rank_correlation, 2)});
  }
  return table;
}

// ---- every row

Figure scatter_figure(const std::string& quantity, const NamedRows& rows) {
  const std::string words = words_of(quantity);
  ScatterChart chart{.title = "Predicted against measured: " + words,
                     .x_unit = "measured " + words,
                     .y_unit = "predicted " + words,
                     .colour_unit = "",
                     .points = {},
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
  return {"scatter-" + quantity,
          chart.title,
          "Line: predicted as measured; dashed: twice and half. Teal: in the 80 % interval; red: "
          "outside; grey: it has none.",
          chart.points.size() < fewest_points ? "" : scatter_chart_svg(chart),
          {}};
}

/// Sources, then the quantities, those with most rows first.
std::vector<Figure> figures_of(const NamedRows& rows,
                               const std::map<std::string, NamedRows>& families) {
  const auto quantities = rows_by(rows, &ScoredRow::quantity);
  std::vector<std::pair<std::string, NamedRows>> sorted(quantities.begin(), quantities.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::vector<Figure> figures = {sources_figure(families)};
  for (const auto& [quantity, members] : sorted)
    figures.push_back(scatter_figure(quantity, members));
  std::erase_if(figures, [](const Figure& figure) { return figure.drawing.empty(); });
  return figures;
}

DataTable rows_table(const NamedRows& rows) {
  DataTable table{
      {"row", "family", "quantity", "measured", "predicted", "error (%)", "interval", "assumed"},
      {}};
  for (const NamedRow& each : rows) {
    const ScoredRow& row = *each.row;
    table.add({each.name, row.family, words_of(row.quantity), significant(row.measured, 4),
               significant(row.predicted, 4), cell(row.error_pct()),
               row.interval ? fmt::format("{} to {}", significant(row.interval->low),
                                          significant(row.interval->high))
                            : "–",
               fmt::format("{}", fmt::join(row.notes, "; "))},
              each.name);
  }
  return table;
}

NamedRows worst_of(NamedRows rows, std::size_t count) {
  std::erase_if(rows, [](const NamedRow& row) { return !is_ratio(*row.row); });
  std::stable_sort(rows.begin(), rows.end(), [](const NamedRow& a, const NamedRow& b) {
    return std::abs(std::log(a.row->predicted / a.row->measured)) >
           std::abs(std::log(b.row->predicted / b.row->measured));
  });
  rows.resize(std::min(rows.size(), count));
  return rows;
}

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
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  sorted.resize(std::min(sorted.size(), most_reasons));
  DataTable table{{"reason", "rows", "one of them"}, {}};
  for (const auto& [reason, rows] : sorted)
    table.add({reason, whole(static_cast<int64_t>(rows.size())), rows.front()});
  return table;
}

// ---- what it says

std::string worst_source_sentence(const std::map<std::string, ErrorSummary>& families) {
  const auto worst =
      std::max_element(families.begin(), families.end(), [](const auto& a, const auto& b) {
        return a.second.median_abs.value_or(0) < b.second.median_abs.value_or(0);
      });
  if (worst == families.end() || !worst->second.median_abs) return "";
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

std::vector<std::string> sentences_of(const TableScores& all, const ScoreSummary& summary,
                                      const NamedRows& rows,
                                      const std::map<std::string, NamedRows>& families) {
  std::vector<std::string> sentences = {worst_source_sentence(summary.families),
                                        coverage_sentence(rows, families)};
  const std::size_t ran = static_cast<std::size_t>(all.fit.ran_and_fits) + all.fit.false_oom.size();
  const std::size_t failed =
      static_cast<std::size_t>(all.fit.failed_and_does_not_fit) + all.fit.false_fit.size();
  if (ran > 0)
    sentences.push_back(fmt::format(
        "{} of {} jobs that ran do not fit by our estimate; {} of {} that ran out of memory do.",
        all.fit.false_oom.size(), whole(static_cast<int64_t>(ran)), all.fit.false_fit.size(),
        whole(static_cast<int64_t>(failed))));
  if (!all.skipped.empty())
    sentences.push_back(
        fmt::format("{} rows are not predicted; the reasons are below.", all.skipped.size()));
  std::erase_if(sentences, [](const std::string& text) { return text.empty(); });
  return sentences;
}

Tile error_tile(const char* name, const ErrorSummary& error, const char* unit) {
  return {name, fmt::format("{} {}", cell(error.median_abs), unit),
          fmt::format("median error of {} values; 90 % are below {} {}", whole(error.rows),
                      cell(error.p90_abs), unit)};
}

std::vector<Tile> tiles_of(const ScoreSummary& summary, const NamedRows& rows) {
  std::vector<Tile> tiles;
  if (summary.speed.rows > 0) tiles.push_back(error_tile("speed and power", summary.speed, "%"));
  if (summary.memory.rows > 0) tiles.push_back(error_tile("memory", summary.memory, "%"));
  if (summary.temperature.rows > 0)
    tiles.push_back(error_tile("temperature", summary.temperature, "°C"));
  if (const auto share = coverage(rows))
    tiles.push_back({"in the interval", percent(*share), "80 % are promised"});
  if (summary.speed.rank_correlation)
    tiles.push_back({"order in sweeps", cell(summary.speed.rank_correlation, 2),
                     "rank correlation of predicted and measured"});
  return tiles;
}

/// What the page's script filters by.
Json rows_data(const NamedRows& rows) {
  Json data = Json::array();
  for (const NamedRow& each : rows)
    data.push_back({{"name", each.name},
                    {"model", each.row->family},
                    {"machine", words_of(each.row->quantity)},
                    {"layout", ""},
                    {"variant", ""},
                    {"microbatch", 0},
                    {"verdict", words_of(place_of(*each.row))},
                    {"page", ""}});
  return data;
}

std::string errors_section(const ScoreSummary& summary,
                           const std::map<std::string, NamedRows>& families) {
  std::string html;
  const auto add = [&](const auto& errors, const char* caption) {
    if (!errors.empty()) html += html_table(errors_table(errors, families), caption);
  };
  add(summary.families, "Speed and power: error in %");
  add(summary.memory_families, "Memory: error in %");
  add(summary.temperature_families, "Temperature: error in °C");
  return html_section("by-family", "By family", html);
}

}  // namespace

std::string validation_page(const TableScores& all, std::size_t worst) {
  const ScoreSummary summary = calibrate::summarize(all);
  const NamedRows rows = named_rows(all);
  const auto families = rows_by(rows, &ScoredRow::family);
  std::string body = html_header(
      "validation", "Predicted against measured",
      fmt::format(
          "<b>{}</b> rows of <b>{}</b> families, <b>{}</b> predicted. Select a point or the "
          "name of a row to see its numbers.",
          whole(all.rows), families.size(), whole(summary.predicted_rows)));
  body += html_tiles(tiles_of(summary, rows)) + html_figures(figures_of(rows, families)) +
          html_section("findings", "Findings",
                       html_findings(sentences_of(all, summary, rows, families)));
  body += errors_section(summary, families);
  if (const NamedRows far = worst_of(rows, worst); !far.empty())
    body += "<div class=\"misses\">" +
            html_section("misses", "Largest misses",
                         html_table(rows_table(far), "The rows that are farthest off")) +
            "</div>";
  if (!all.skipped.empty())
    body += html_section("skipped", "Not predicted",
                         html_table(skipped_table(all), "Why rows are not predicted"));
  body += "<div class=\"jobs\">" +
          html_section("jobs", "All rows",
                       html_filter("rows", "llama, h100, outside") +
                           html_table(rows_table(rows), "Every measured number and ours")) +
          "</div>";
  return html_page(
      "Predicted against measured", body,
      {{"jobs", rows_data(rows)},
       {"facets", {{"model", "Source"}, {"machine", "Quantity"}, {"verdict", "80 % interval"}}},
       {"noun", "rows"}});
}

}  // namespace triplepoint::report
