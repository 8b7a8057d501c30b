// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/learning_rate.h"

#include <doctest/doctest.h>

namespace triplepoint::trainer {

TEST_CASE("the rate rises linearly, peaks and falls to its share along half a cosine") {
  const LearningRate rate{.peak = 2, .warmup_steps = 4, .decay_steps = 24, .final_share = 0.1};
  CHECK(rate.at(0) == doctest::Approx(0.5));
  CHECK(rate.at(3) == doctest::Approx(2));
  CHECK(rate.at(4) == doctest::Approx(2));
  CHECK(rate.at(14) == doctest::Approx(2 * (0.1 + 0.9 / 2)));
  CHECK(rate.at(24) == doctest::Approx(0.2));
  CHECK(rate.at(1000) == doctest::Approx(0.2));
  for (int64_t step = 4; step < 24; ++step)
    CHECK(rate.at(step + 1) < rate.at(step));
}

TEST_CASE("without warm-up and decay the rate is constant") {
  const LearningRate rate{.peak = 3e-4};
  for (const int64_t step : {0, 1, 100})
    CHECK(rate.at(step) == 3e-4);
}

}  // namespace triplepoint::trainer
