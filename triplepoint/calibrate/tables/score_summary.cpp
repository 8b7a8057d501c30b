// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/tables/score_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::size_t smallest_sweep = 4;

/// Ranks from 1 on; equal numbers share the mean of theirs.
std::vector<double> ranks(std::span<const double> numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> rank(numbers.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && numbers[order[end]] == numbers[order[begin]])
      ++end;
    const double shared = as_real(begin + end + 1) / 2;
    for (std::size_t i = begin; i < end; ++i)
      rank[order[i]] = shared;
    begin = end;
  }
  return rank;
}

std::optional<double> correlation(std::span<const double> x, std::span<const double> y) {
  const double mean_x = mean(x), mean_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

std::optional<double> correlation_within_sweeps(std::span<const ScoredRow* const> rows) {
  RowGroups sweeps;
  for (const ScoredRow* row : rows)
    if (!row->sweep.empty()) sweeps[row->sweep + '\n' + row->quantity].push_back(row);
  double sum = 0, weight = 0;
  for (const auto& [name, members] : sweeps) {
    if (members.size() < smallest_sweep) continue;
    std::vector<double> measured, predicted;
    for (const ScoredRow* row : members) {
      measured.push_back(row->measured);
      predicted.push_back(row->predicted);
    }
    const std::optional<double> rho = rank_correlation(measured, predicted);
    if (!rho) continue;
    sum += *rho * as_real(members.size());
    weight += as_real(members.size());
  }
  if (weight == 0) return std::nullopt;
  return sum / weight;
}

/// Rows that ran out of memory have a verdict and no number.
int64_t failed_rows(const FitVerdicts& fit) {
  return fit.failed_and_does_not_fit + static_cast<int64_t>(fit.false_fit.size());
}

std::map<std::string, ErrorSummary> summaries(const RowGroups& groups) {
  std::map<std::string, ErrorSummary> all;
  for (const auto& [name, rows] : groups)
    all[name] = summarize(std::span<const ScoredRow* const>(rows));
  return all;
}

}  // namespace

std::optional<double> rank_correlation(std::span<const double> x, std::span<const double> y) {
  TPT_EXPECT(x.size() == y.size());
  if (x.size() < 2) return std::nullopt;
  return correlation(ranks(x), ranks(y));
}

bool is_temperature(const ScoredRow& row) {
  return row.quantity.ends_with("_c");
}

bool is_memory(const ScoredRow& row) {
  return row.quantity.starts_with("mem_");
}

double error_of(const ScoredRow& row) {
  return is_temperature(row) ? row.predicted - row.measured : row.error_pct();
}

ErrorSummary summarize(std::span<const ScoredRow* const> rows) {
  ErrorSummary summary;
  summary.rows = static_cast<int64_t>(rows.size());
  std::vector<double> errors, sizes;
  for (const ScoredRow* row : rows) {
    const double error = error_of(*row);
    if (!std::isfinite(error)) continue;  // measured as zero
    errors.push_back(error);
    sizes.push_back(std::abs(error));
  }
  if (errors.empty()) return summary;
  summary.median_abs = quantile(sizes, 0.5);
  summary.p90_abs = quantile(sizes, 0.9);
  summary.mean_abs = mean(sizes);
  summary.max_abs = *std::ranges::max_element(sizes);
  summary.signed_mean = mean(errors);
  summary.rank_correlation = correlation_within_sweeps(rows);
  return summary;
}

ScoreSummary summarize(const TableScores& scores) {
  std::vector<const ScoredRow*> speed, memory, temperature;
  RowGroups families, memory_families, temperature_families, quantities;
  std::set<std::string> predicted;
  for (const ScoredRow& row : scores.scored) {
    predicted.insert(row.row_id);
    quantities[row.quantity].push_back(&row);
    const bool of_memory = is_memory(row), of_temperature = is_temperature(row);
    (of_memory ? memory : of_temperature ? temperature : speed).push_back(&row);
    (of_memory        ? memory_families
     : of_temperature ? temperature_families
                      : families)[row.family]
        .push_back(&row);
  }
  ScoreSummary summary;
  summary.predicted_rows = static_cast<int64_t>(predicted.size()) + failed_rows(scores.fit);
  summary.speed = summarize(std::span<const ScoredRow* const>(speed));
  summary.memory = summarize(std::span<const ScoredRow* const>(memory));
  summary.temperature = summarize(std::span<const ScoredRow* const>(temperature));
  summary.families = summaries(families);
  summary.memory_families = summaries(memory_families);
  summary.temperature_families = summaries(temperature_families);
  summary.quantities = summaries(quantities);
  return summary;
}

namespace {

constexpr int schema = 1;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

/// The keys of a summary end in the unit of its errors.
void put_errors(Json& json, const ErrorSummary& summary, const std::string& unit) {
  json["median_abs_error_" + unit] = number(summary.median_abs);
  json["mean_abs_error_" + unit] = number(summary.mean_abs);
  json["p90_abs_error_" + unit] = number(summary.p90_abs);
  json["max_abs_error_" + unit] = number(summary.max_abs);
  json["signed_mean_error_" + unit] = number(summary.signed_mean);
  json["rank_correlation"] = number(summary.rank_correlation);
}

Json summary_json(const ErrorSummary& summary, const std::string& unit) {
  Json json = {{"rows", summary.rows}};
  put_errors(json, summary, unit);
  return json;
}

Json summaries_json(const std::map<std::string, ErrorSummary>& all, const std::string& unit) {
  Json json = Json::object();
  for (const auto& [name, summary] : all)
    json[name] = summary_json(summary, unit);
  return json;
}

Json part_json(const ErrorSummary& whole, const std::map<std::string, ErrorSummary>& families,
               const std::string& unit) {
  Json json = summary_json(whole, unit);
  json["families"] = summaries_json(families, unit);
  return json;
}

double share_pct(std::size_t part, int64_t rest) {
  const double whole = as_real(part) + as_real(rest);
  return whole > 0 ? 100 * as_real(part) / whole : 0;
}

bool has_verdicts(const FitVerdicts& fit) {
  return fit.ran_and_fits > 0 || fit.failed_and_does_not_fit > 0 || !fit.false_fit.empty() ||
         !fit.false_oom.empty();
}

/// Rates: of the rows that failed, how many we say fit; of those that ran, how many we say do not.
Json fit_json(const FitVerdicts& fit) {
  return {{"ran_and_fits", fit.ran_and_fits},
          {"failed_and_does_not_fit", fit.failed_and_does_not_fit},
          {"false_fit", fit.false_fit},
          {"false_oom", fit.false_oom},
          {"false_fit_rate_pct", share_pct(fit.false_fit.size(), fit.failed_and_does_not_fit)},
          {"false_oom_rate_pct", share_pct(fit.false_oom.size(), fit.ran_and_fits)}};
}

Json sensitivities_json(const JobSensitivities& of) {
  Json json = Json::object();
  for (std::size_t k = 0; k < learn::coefficient_count; ++k)
    json["slopes"][learn::coefficients()[k].name] = of.slopes[k];
  for (std::size_t k = 0; k < learn::size_knobs.size(); ++k)
    json["knobs"][learn::size_knobs[k]] = of.knobs.sizes[k];
  for (std::size_t k = 0; k < learn::word_knobs.size(); ++k)
    json["knobs"][learn::word_knobs[k]] = of.knobs.words[k];
  return json;
}

Json row_json(const std::string& table, const ScoredRow& row) {
  Json json = {{"table", table},
               {"row_id", row.row_id},
               {"family", row.family},
               {"quantity", row.quantity},
               {"measured", number(row.measured)},
               {"predicted", number(row.predicted)},
               {"error_pct", number(row.error_pct())}};
  if (is_temperature(row)) json["error_c"] = number(row.predicted - row.measured);
  if (!row.sweep.empty()) json["sweep"] = row.sweep;
  if (row.interval) {
    json["interval_low"] = row.interval->low;
    json["interval_high"] = row.interval->high;
  }
  for (const auto& [feature, level] : row.regime)
    json["regime"][feature] = level;
  if (row.sensitivities) json["sensitivities"] = sensitivities_json(*row.sensitivities);
  json["assumptions"] = row.notes;
  return json;
}

Json skipped_json(const std::vector<SkippedRow>& rows) {
  return mapped<Json>(rows, [&](const SkippedRow& row) -> Json {
    return {{"row_id", row.row_id}, {"reason", row.reason}};
  });
}

Json tables_json(const std::vector<ValidatedFile>& files) {
  return mapped<Json>(files, [&](const ValidatedFile& file) -> Json {
    return {{"file", file.file},
            {"table", file.scores.table},
            {"rows", file.scores.rows},
            {"predicted", summarize(file.scores).predicted_rows},
            {"skipped", file.scores.skipped.size()}};
  });
}

Json rows_json(const std::vector<ValidatedFile>& files) {
  Json json = Json::array();
  for (const ValidatedFile& file : files)
    for (const ScoredRow& row : file.scores.scored)
      json.push_back(row_json(file.scores.table, row));
  return json;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

TableScores all_scores(const std::vector<ValidatedFile>& files) {
  TableScores all;
  for (const ValidatedFile& file : files) {
    const TableScores& scores = file.scores;
    all.table = all.table.empty() || all.table == scores.table ? scores.table : "several";
    all.rows += scores.rows;
    all.scored.insert(all.scored.end(), scores.scored.begin(), scores.scored.end());
    all.skipped.insert(all.skipped.end(), scores.skipped.begin(), scores.skipped.end());
    all.fit.ran_and_fits += scores.fit.ran_and_fits;
    all.fit.failed_and_does_not_fit += scores.fit.failed_and_does_not_fit;
    append(all.fit.false_fit, scores.fit.false_fit);
    append(all.fit.false_oom, scores.fit.false_oom);
  }
  return all;
}

Json validation_json(const std::vector<ValidatedFile>& files) {
  const TableScores all = all_scores(files);
  const ScoreSummary summary = summarize(all);
  Json json = {{"schema", schema},
               {"tables", tables_json(files)},
               {"rows", all.rows},
               {"predicted", summary.predicted_rows}};
  put_errors(json, summary.speed, "pct");
  json["families"] = summaries_json(summary.families, "pct");
  json["quantities"] = summaries_json(summary.quantities, "pct");
  if (summary.memory.rows > 0)
    json["memory"] = part_json(summary.memory, summary.memory_families, "pct");
  if (summary.temperature.rows > 0)
    json["temperature"] = part_json(summary.temperature, summary.temperature_families, "c");
  if (has_verdicts(all.fit)) json["fit"] = fit_json(all.fit);
  json["skipped"] = skipped_json(all.skipped);
  json["per_row"] = rows_json(files);
  return json;
}

std::string validation_csv(const std::vector<ValidatedFile>& files) {
  const std::vector<std::string> header = {"table",     "row_id",    "family",
                                           "quantity",  "sweep",     "measured",
                                           "predicted", "error_pct", "assumptions"};
  CsvWriter csv(header);
  for (const ValidatedFile& file : files) {
    for (const ScoredRow& row : file.scores.scored) {
      csv.cell(file.scores.table).cell(row.row_id).cell(row.family).cell(row.quantity);
      csv.cell(row.sweep).cell(row.measured).cell(row.predicted).cell(row.error_pct());
      csv.cell(fmt::format("{}", fmt::join(row.notes, "; ")));
      csv.end_row();
    }
  }
  return csv.text();
}

}  // namespace triplepoint::calibrate
