// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/repeat_statistics.h"

#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

std::vector<double> normal_values(uint64_t seed, int count, double mean, double deviation) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i)
    values.push_back(mean + deviation * random_normal({.seed = seed, .stream = 7}, i));
  return values;
}

TEST_CASE("Student's quantiles equal the closed forms of one and two degrees of freedom") {
  for (const double p : {0.01, 0.3, 0.6, 0.9, 0.975, 0.9995}) {
    CHECK(student_t_quantile(p, 1) == Approx(std::tan(std::numbers::pi * (p - 0.5))).epsilon(1e-9));
    const double two = (2 * p - 1) / std::sqrt(2 * p * (1 - p));
    CHECK(student_t_quantile(p, 2) == Approx(two).epsilon(1e-9));
  }
}

TEST_CASE("with many degrees of freedom Student's quantile becomes the normal one") {
  const double t = student_t_quantile(0.975, 1e7);
  CHECK(std::erf(t / std::numbers::sqrt2) == Approx(0.95).epsilon(1e-6));
  CHECK(student_t_quantile(0.975, 5) > student_t_quantile(0.975, 50));
  CHECK(student_t_quantile(0.5, 3) == Approx(0).epsilon(1e-9));
}

TEST_CASE("a 95 percent interval of repeats holds the truth in 95 of 100 experiments") {
  int held = 0;
  const int experiments = 4000;
  for (int i = 0; i < experiments; ++i) {
    const Interval interval = interval_of_repeats(normal_values(i, 5, 3, 0.5));
    held += std::abs(interval.mean - 3) <= *interval.half_width;
  }
  // Four standard deviations of a binomial count.
  CHECK(std::abs(held - 0.95 * experiments) < 4 * std::sqrt(experiments * 0.95 * 0.05));
}

TEST_CASE("steps that resemble their neighbours give a wider interval than repeats do") {
  std::vector<double> drifting, shaken;
  for (int i = 0; i < 40; ++i) {
    drifting.push_back(i);
    shaken.push_back((i * 17) % 40);  // the same values in another order
  }
  CHECK(*interval_of_steps(drifting).half_width > 2 * *interval_of_repeats(drifting).half_width);
  CHECK(*interval_of_steps(shaken).half_width ==
        Approx(*interval_of_repeats(shaken).half_width).epsilon(0.3));
}

TEST_CASE("a single value has a mean and no interval") {
  const double one[] = {4.5};
  const Interval interval = interval_of_repeats(one);
  CHECK(interval.mean == 4.5);
  CHECK_FALSE(interval.half_width);
  CHECK_FALSE(difference_of_repeats(one, normal_values(1, 3, 5, 1)).is_significant());
}

TEST_CASE("a difference is significant when it is beyond what chance does") {
  const auto a = normal_values(1, 6, 10, 0.1), b = normal_values(2, 6, 11, 0.1),
             c = normal_values(3, 6, 10, 0.1);
  CHECK(difference_of_repeats(a, b).is_significant() == true);
  CHECK(difference_of_repeats(a, b).difference == Approx(1).epsilon(0.2));
  CHECK(difference_of_repeats(b, a).difference == -difference_of_repeats(a, b).difference);
  int false_alarms = 0;
  for (int i = 0; i < 1000; ++i)
    false_alarms += *difference_of_repeats(normal_values(2 * i + 100, 4, 1, 1),
                                           normal_values(2 * i + 101, 4, 1, 1))
                         .is_significant();
  CHECK(false_alarms < 80);  // 50, and four standard deviations
  CHECK(difference_of_repeats(a, c).half_width.has_value());
}

TEST_CASE("the warm-up that is found is the one that is there") {
  for (const int slow : {0, 1, 3, 6}) {
    std::vector<double> steps = normal_values(11, 30, 2, 0.01);
    for (int i = 0; i < slow; ++i)
      steps[i] += 3;
    CHECK(warmup_steps(steps) == slow);
  }
  CHECK(warmup_steps(std::vector<double>{9, 1, 1}) == 0);
}

TEST_CASE("the protocol drops the warm-up and keeps as many steps as it says") {
  std::vector<run::StepRecord> steps;
  for (int64_t i = 0; i < 20; ++i)
    steps.push_back({.begin = Instant(i * 100), .end = Instant(i * 100 + (i < 3 ? 99 : 50))});
  const auto chosen = measured_steps(steps, {.warmup = 5, .measured = 10});
  REQUIRE(chosen.size() == 10);
  CHECK(chosen.front() == steps[5]);
  CHECK(measured_steps(steps, {}).front() == steps[3]);
  CHECK(measured_steps(steps, {.warmup = 15}).size() == 5);
  CHECK(measured_steps(steps, {.warmup = 50}).empty());
  run::Run run;
  run.steps = steps;
  CHECK(measure(with_measured_steps(run, {})).step_time.value() / unit::ns == Approx(50));
}

TEST_CASE("repeats are summed up in what all of them know") {
  std::vector<Metrics> repeats(3);
  for (int i = 0; i < 3; ++i) {
    repeats[i].step_time = (1.0 + 0.1 * i) * unit::s;
    repeats[i].energy_j = 500;
  }
  repeats[0].mfu = 0.4;  // the others do not know
  const auto answers = repeat_statistics(repeats);
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].key == "step_time_s");
  CHECK(answers[0].interval.mean == Approx(1.1));
  CHECK(answers[0].interval.standard_deviation == Approx(0.1));
  CHECK(answers[0].interval.half_width.value() ==
        Approx(student_t_quantile(0.975, 2) * 0.1 / std::sqrt(3.0)));
  CHECK(answers[1].interval.half_width.value() == 0);
}

}  // namespace
}  // namespace triplepoint::metrics
