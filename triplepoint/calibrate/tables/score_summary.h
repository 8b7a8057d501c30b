// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// How far predictions are from measurements, over a set of rows. Absent where there is no row, or
/// no sweep to rank.
struct ErrorSummary {
  int64_t rows = 0;
  std::optional<double> median_abs, mean_abs, p90_abs, max_abs, signed_mean;
  std::optional<double> rank_correlation;
};

/// Spearman's rank correlation; equal numbers share their mean rank. Nothing for fewer than two
/// pairs, or where one side is all equal.
///
///   rho = cov(rank x, rank y) / (sigma(rank x) sigma(rank y))
std::optional<double> rank_correlation(std::span<const double> x, std::span<const double> y);

/// The error of one row in the unit of its summary: per cent, or K for temperatures.
double error_of(const ScoredRow&);
bool is_temperature(const ScoredRow&);
bool is_memory(const ScoredRow&);

/// Errors of rows of one kind. Their rank correlation is the mean over sweeps of at least four rows
/// of one quantity, weighted by rows.
ErrorSummary summarize(std::span<const ScoredRow* const> rows);

/// Rows by a word of theirs, in the order of the words.
using RowGroups = std::map<std::string, std::vector<const ScoredRow*>>;

/// Everything a table says, put together. `speed` holds all that is neither memory nor temperature.
struct ScoreSummary {
  ErrorSummary speed, memory, temperature;
  std::map<std::string, ErrorSummary> families, memory_families, temperature_families, quantities;
  int64_t predicted_rows = 0;  // rows with at least one prediction
};
ScoreSummary summarize(const TableScores&);

/// What one file says of our models.
struct ValidatedFile {
  std::string file;
  TableScores scores;
};

/// The rows of all files together.
TableScores all_scores(const std::vector<ValidatedFile>&);

/// What `triplepoint validate --format json` prints. Keys and their meaning: docs/formats.md.
Json validation_json(const std::vector<ValidatedFile>&);

/// One line per prediction: table, row_id, family, quantity, sweep, measured, predicted, error_pct,
/// assumptions.
std::string validation_csv(const std::vector<ValidatedFile>&);

}  // namespace triplepoint::calibrate
