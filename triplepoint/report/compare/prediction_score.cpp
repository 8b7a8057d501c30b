// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/prediction_score.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint::report {
namespace {

/// From 1 on; equal values share the mean of their places.
std::vector<double> places_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> places(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]])
      ++last;
    const double place = 1 + 0.5 * static_cast<double>(first + last);
    for (std::size_t i = first; i <= last; ++i)
      places[order[i]] = place;
    first = last + 1;
  }
  return places;
}

bool was(const std::optional<Side>& side, const char* origin) {
  return side && side->origin == origin;
}

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = places_of(a), y = places_of(b);
  const double mean = 0.5 * (static_cast<double>(a.size()) + 1);
  double together = 0, of_x = 0, of_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    together += (x[i] - mean) * (y[i] - mean);
    of_x += (x[i] - mean) * (x[i] - mean);
    of_y += (y[i] - mean) * (y[i] - mean);
  }
  return of_x > 0 && of_y > 0 ? together / std::sqrt(of_x * of_y) : 0;
}

std::optional<PredictionScore> score_prediction(const StudyComparison& c, std::size_t side) {
  PredictionScore score;
  std::vector<double> predicted, measured, errors;
  for (const ComparedJob& job : c.jobs) {
    const bool forward = was(job.sides[0], "simulated") && was(job.sides[side], "measured");
    const bool backward = was(job.sides[0], "measured") && was(job.sides[side], "simulated");
    const ComparedRow* row = job.numbers.find("step_time_s");
    if ((!forward && !backward) || row == nullptr || !row->values[0] || !row->values[side])
      continue;
    predicted.push_back(*row->values[forward ? 0 : side]);
    measured.push_back(*row->values[forward ? side : 0]);
    errors.push_back(std::abs(predicted.back() / measured.back() - 1));
    if (errors.back() >= score.largest_error)
      score.largest_error = errors.back(), score.worst = job.name;
  }
  constexpr std::size_t min_jobs = 3;
  if (errors.size() < min_jobs) return std::nullopt;
  score.jobs = errors.size();
  score.median_error = median(errors);
  score.rank_correlation = rank_correlation(predicted, measured);
  return score;
}

std::string sentence_of(const PredictionScore& score, const StudyComparison& c, std::size_t side) {
  return fmt::format(
      "As a prediction, the simulated one of {} and {} is off by {} % in the median of {} jobs and "
      "by "
      "{} % at most ({}); it orders them with a rank correlation of {}.",
      c.names[0], c.names[side], significant(100 * score.median_error, 2), score.jobs,
      significant(100 * score.largest_error, 2), score.worst,
      significant(score.rank_correlation, 2));
}

}  // namespace triplepoint::report
