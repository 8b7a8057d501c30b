// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/tables/score_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::size_t smallest_sweep = 4;

/// Ranks from 1 on; equal numbers share the mean of theirs.
std::vector<double> ranks(std::span<const double> numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> rank(numbers.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && numbers[order[end]] == numbers[order[begin]])
      ++end;
    const double shared = static_cast<double>(begin + end + 1) / 2;
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
    sum += *rho * static_cast<double>(members.size());
    weight += static_cast<double>(members.size());
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
  summary.max_abs = *std::max_element(sizes.begin(), sizes.end());
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

}  // namespace triplepoint::calibrate
