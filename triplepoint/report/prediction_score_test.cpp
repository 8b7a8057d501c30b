// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/prediction_score.h"

#include <array>

#include <doctest/doctest.h>

namespace triplepoint::report {
namespace {

StudyRow row_of(const std::string& name, double step_s, run::Origin origin) {
  StudyRow row;
  row.name = name;
  row.verdict = Verdict::ok;
  row.origin = origin;
  row.metrics.emplace();
  row.metrics->step_time = step_s * unit::s;
  return row;
}

Study study_of(const std::vector<double>& steps, run::Origin origin) {
  Study study;
  for (std::size_t i = 0; i < steps.size(); ++i)
    study.rows.push_back(row_of("job" + std::to_string(i), steps[i], origin));
  return study;
}

TEST_CASE("orders that agree correlate to 1, reversed ones to -1, and ties share their places") {
  const std::array a = {1.0, 2.0, 3.0, 4.0}, same = {10.0, 20.0, 30.0, 400.0},
                   reversed = {4.0, 3.0, 2.0, 1.0}, flat = {1.0, 1.0, 1.0, 1.0};
  CHECK(rank_correlation(a, same) == doctest::Approx(1));
  CHECK(rank_correlation(a, reversed) == doctest::Approx(-1));
  CHECK(rank_correlation(a, flat) == 0);
  const std::array tied = {1.0, 2.0, 2.0, 3.0};
  CHECK(rank_correlation(tied, tied) == doctest::Approx(1));
}

TEST_CASE("a prediction is scored against what was measured, whichever is named first") {
  const Study measured = study_of({1, 2, 4}, run::Origin::measured);
  const Study simulated = study_of({1.1, 2, 3}, run::Origin::simulated);
  for (const bool first : {true, false}) {
    const StudyComparison c = first ? compare_studies({measured, simulated}, {"m", "s"})
                                    : compare_studies({simulated, measured}, {"s", "m"});
    const auto score = score_prediction(c, 1);
    REQUIRE(score);
    CHECK(score->jobs == 3);
    CHECK(score->median_error == doctest::Approx(0.1));
    CHECK(score->largest_error == doctest::Approx(0.25));
    CHECK(score->worst == "job2");
    CHECK(score->rank_correlation == doctest::Approx(1));
  }
}

TEST_CASE("two studies of one kind predict nothing") {
  const Study a = study_of({1, 2, 4}, run::Origin::measured);
  CHECK_FALSE(score_prediction(compare_studies({a, a}, {"a", "b"}), 1));
}

}  // namespace
}  // namespace triplepoint::report
