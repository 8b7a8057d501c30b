// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "triplepoint/report/compare/compare.h"

namespace triplepoint::report {

/// How well one study foretold the step times of another, over the jobs that ran in both.
///
///   error of a job = |predicted / measured - 1|
struct PredictionScore {
  std::size_t jobs = 0;
  double median_error = 0, largest_error = 0;
  std::string worst;                       // the job of the largest error
  std::optional<double> rank_correlation;  // Spearman's
};

/// Of the first study and side `side`, if one of them was simulated and the other measured, and at
/// least three jobs ran in both.
std::optional<PredictionScore> score_prediction(const StudyComparison&, std::size_t side);

std::string sentence_of(const PredictionScore& score, const StudyComparison&, std::size_t side);

}  // namespace triplepoint::report
