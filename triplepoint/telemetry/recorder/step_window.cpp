// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "triplepoint/telemetry/recorder/closing.h"

namespace triplepoint::telemetry {

std::vector<run::StepRecord> measured_steps(std::vector<run::StepRecord> all,
                                            const StepWindow& window) {
  std::sort(all.begin(), all.end(),
            [](const run::StepRecord& a, const run::StepRecord& b) { return a.begin < b.begin; });
  const auto size = static_cast<int64_t>(all.size());
  // A training shorter than its warm-up has its last step measured, which is better than nothing.
  const int64_t skipped = std::max<int64_t>(0, std::min(window.warmup, size - 1));
  const int64_t kept = std::min(window.steps.value_or(size), size - skipped);
  return {all.begin() + skipped, all.begin() + skipped + kept};
}

MeanWithInterval mean_with_interval(const std::vector<double>& values) {
  // Student's t, 97.5 %, for 1, 2, ... degrees of freedom; then the normal distribution's.
  constexpr std::array t = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                            2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  constexpr double normal = 1.96;
  const auto count = static_cast<double>(values.size());
  if (values.empty()) return {};
  MeanWithInterval result{.mean = std::accumulate(values.begin(), values.end(), 0.0) / count};
  if (values.size() < 2) return result;
  double squares = 0;
  for (double value : values)
    squares += (value - result.mean) * (value - result.mean);
  const size_t freedom = values.size() - 1;
  const double factor = freedom <= t.size() ? t[freedom - 1] : normal;
  result.half_width = factor * std::sqrt(squares / static_cast<double>(freedom) / count);
  return result;
}

}  // namespace triplepoint::telemetry
