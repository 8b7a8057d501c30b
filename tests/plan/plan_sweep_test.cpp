// SPDX-License-Identifier: Apache-2.0
// Choosing among the configurations that a public sweep measured on H100: how much slower is the
// one we would take than the best measured one? A job that is wrongly called out of memory counts
// in the regret, where its speed is 0 since no planner takes it, and in the share of right
// verdicts. It has no predicted speed, so the order of speeds is that of the others (0.936; with
// zeros, which would count the verdict twice, 0.860).
#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/calibrate/jobs/job_scores.h"
#include "triplepoint/calibrate/tables/score_summary.h"

namespace triplepoint {
namespace {

using Pairs = std::vector<std::pair<double, double>>;  // measured, predicted

/// Speed lost by taking the plan that is predicted to be fastest.
double regret(const Pairs& pairs) {
  const auto best = std::ranges::max_element(pairs);
  const auto chosen = std::ranges::max_element(
      pairs, [](const auto& a, const auto& b) { return a.second < b.second; });
  return 1 - chosen->first / best->first;
}

TEST_CASE("regret is what it is called") {
  CHECK(regret({{1, 3}, {2, 2}, {4, 1}}) == doctest::Approx(0.75));
}

TEST_CASE("plans chosen from a public sweep of H100 jobs lose little against the best measured") {
  const std::string path = TPT_SOURCE_DIR "/validation/hf-h100-sweep/jobs.csv";
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: " << path << " is not here");
    return;
  }
  const auto table = CsvTable::parse(*read_file(path), path);
  REQUIRE(table);
  const spec::Library library = spec::default_library();
  const auto scores =
      calibrate::score_job_table(*table, {.library = library, .threads = available_threads()});
  REQUIRE(scores);
  std::map<std::string, Pairs> sweeps;
  for (const calibrate::ScoredRow& row : scores->scored)
    if (!row.sweep.empty()) sweeps[row.sweep].emplace_back(row.measured, row.predicted);
  std::vector<double> regrets, ranks;
  for (const auto& [name, pairs] : sweeps) {
    if (pairs.size() < 5) continue;  // with fewer there is hardly a choice
    regrets.push_back(regret(pairs));
    std::vector<double> measured, predicted;
    for (const auto& [m, p] : pairs)
      if (p > 0) measured.push_back(m), predicted.push_back(p);
    ranks.push_back(*calibrate::rank_correlation(measured, predicted));
  }
  REQUIRE(regrets.size() > 10);
  const calibrate::FitVerdicts& fit = scores->fit;
  const auto false_fit = as_real(fit.false_fit.size());
  const auto false_oom = as_real(fit.false_oom.size());
  const double failed = as_real(fit.failed_and_does_not_fit) + false_fit;
  const double right = as_real(fit.ran_and_fits + fit.failed_and_does_not_fit);
  const double correct = right / (right + false_fit + false_oom);
  MESSAGE(fmt::format(
      "{} choices: median regret {:.1f} %, mean {:.1f} %; rank correlation median "
      "{:.3f}; memory verdicts right {:.1f} % of {:.0f}, false fits {:.1f} % of {:.0f}",
      regrets.size(), 100 * median(regrets),
      100 * std::accumulate(regrets.begin(), regrets.end(), 0.0) / as_real(regrets.size()),
      median(ranks), 100 * correct, right + false_fit + false_oom,
      failed > 0 ? 100 * false_fit / failed : 0., failed));
  CHECK(median(regrets) <= 0.03);
  CHECK(median(ranks) >= 0.93);
  CHECK(correct >= 0.96);
}

}  // namespace
}  // namespace triplepoint
