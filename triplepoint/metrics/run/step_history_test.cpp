// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/step_history.h"

#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;
using Kind = StepPattern::Kind;

constexpr uint64_t trials = 20;

/// A training whose steps scatter as real ones do: neighbours resemble each other, and one of a
/// hundred is up to 5 % longer.
class Training {
 public:
  explicit Training(uint64_t seed) : seed_(seed) {
    step_ = 0.5 + 4 * uniform();
    scatter_ = 0.002 + 0.006 * uniform();
    memory_ = 0.5 * uniform();
    steps_ = 300 + static_cast<int>(900 * uniform());
  }

  double uniform() { return random_uniform({seed_, 1}, turn_++); }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  double step() const { return step_; }
  double scatter() const { return scatter_; }
  int steps() const { return steps_; }

  /// `time` tells the length of step i at the time t of an undisturbed one, `pause` what lies
  /// behind it.
  std::vector<run::StepRecord> run(
      const std::function<double(int, double)>& time = [](int, double) { return 0; },
      const std::function<double(int)>& pause = [](int) { return 0; }) {
    std::vector<run::StepRecord> steps;
    double t = 0, noise = 0;
    for (int i = 0; i < steps_; ++i) {
      noise = memory_ * noise + scatter_ * random_normal({seed_, 2}, turn_++);
      const double tail = uniform() < 0.01 ? 0.05 * uniform() : 0;
      const double length = step_ * (1 + noise + tail) + time(i, t);
      steps.push_back({instant_at(t * unit::s), instant_at((t + length) * unit::s), 0, 0});
      t += length + pause(i);
    }
    return steps;
  }

 private:
  uint64_t seed_, turn_ = 0;
  double step_ = 1, scatter_ = 0, memory_ = 0;
  int steps_ = 0;
};

StepPattern found(const StepHistory& history, Kind kind) {
  const StepPattern* pattern = history.find(kind);
  REQUIRE(pattern != nullptr);
  CHECK(pattern->probability.value_or(1) > 0.95);
  return *pattern;
}

/// Everything is somewhere, once.
void check_sum(const StepHistory& history) {
  Seconds sum = history.base + history.rest;
  for (const StepPattern& pattern : history.patterns)
    sum += pattern.cost;
  CHECK(sum / history.mean == Approx(1).epsilon(1e-9));
}

TEST_CASE("200 fair trainings show no pattern") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const StepHistory history = step_history(Training(seed).run());
    CHECK(history.patterns.empty());
    CHECK(std::abs(history.rest / history.mean) < 0.01);
    check_sum(history);
  }
}

TEST_CASE("stamps of whole seconds are no pauses") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::vector<run::StepRecord> steps = Training(seed).run();
    for (run::StepRecord& step : steps) {
      const int64_t length = step.end.nanoseconds() - step.begin.nanoseconds();
      step.end = Instant(step.end.nanoseconds() / 1'000'000'000 * 1'000'000'000);
      step.begin = Instant(step.end.nanoseconds() - length);
    }
    CHECK(step_history(steps).patterns.empty());
  }
}

TEST_CASE("the first steps are told apart from the others") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const double first = training.between(20, 60) * training.step();
    const StepHistory history = step_history(training.run([&](int i, double) {
      return i == 0 ? first : i < 3 ? training.step() : 0;
    }));
    const StepPattern& start = found(history, Kind::start);
    CHECK(start.count == 3);
    CHECK(start.cost / unit::s * training.steps() ==
          Approx(first + 2 * training.step()).epsilon(0.03));
    CHECK(history.patterns.size() == 1);
  }
}

TEST_CASE("warm-up drift and its time constant are found, with and without pauses") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const double amplitude = std::max(training.between(0.015, 0.035), 5 * training.scatter());
    const double tau = std::max(training.between(20, 90), 10 * training.step());
    // Nothing gets warm while a first step compiles. Where stamps alone are logged, a pause is part
    // of a step.
    const double first = seed % 3 == 0 ? 0 : training.between(5, 40) * training.step();
    const bool pauses = seed % 2 == 0, inside = seed % 4 == 0;
    const auto pause_behind = [&](int i) { return pauses && i % 150 == 149 ? 120.0 : 0.0; };
    double warm = 0;
    double cost = 0;
    const auto steps = training.run(
        [&](int i, double) {
          const double cold = (1 - warm) * std::exp(-training.step() / 2 / tau);
          const double more = training.step() * amplitude * (1 - cold);
          warm = 1 - cold * std::exp(-training.step() / 2 / tau);
          warm *= std::exp(-pause_behind(i) / tau);
          cost += more;
          return more + (i == 0 ? first : 0) + (inside ? pause_behind(i) : 0);
        },
        [&](int i) { return inside ? 0 : pause_behind(i); });
    const StepHistory history = step_history(steps);
    const StepPattern& drift = found(history, Kind::drift);
    // What a cold step takes is known from few steps, and they scatter by up to 1 %.
    const double miss = std::abs(drift.cost / unit::s - cost / training.steps());
    CHECK(miss <
          std::max(0.15 * cost / training.steps(), 2 * training.scatter() * training.step()));
    CHECK(drift.amplitude == Approx(amplitude).epsilon(0.4));
    CHECK(drift.after_pauses == pauses);
    check_sum(history);
  }
}

TEST_CASE("a healthy job of eight GPUs drifts by 1.9 % in its first 75 s") {
  Training training(7);
  const auto steps = training.run(
      [&](int, double t) { return training.step() * 0.019 * (1 - std::exp(-t / 25)); });
  const StepPattern& drift = found(step_history(steps), Kind::drift);
  const double in_75_s = drift.amplitude * (1 - std::exp(-75 / (drift.time_constant / unit::s)));
  CHECK(in_75_s == Approx(0.018).epsilon(0.1));
}

TEST_CASE("three phases of a GPU that gets too hot are told, and when they begin") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const int throttled = 20 + static_cast<int>(training.between(0, 60));
    const int held = throttled + 20 + static_cast<int>(training.between(0, 60));
    const double slow = training.between(0.3, 2), slower = slow * training.between(1.3, 2);
    const StepHistory history = step_history(training.run([&](int i, double) {
      return training.step() * (i < throttled ? 0 : i < held ? slow : slower);
    }));
    const StepPattern& sick = found(history, Kind::slowdown);
    REQUIRE(sick.levels.size() == 3);
    CHECK(std::abs(sick.levels[1].first - throttled) <= 1);
    CHECK(std::abs(sick.levels[2].first - held) <= 1);
    CHECK(sick.amplitude == Approx(slower).epsilon(0.03));
    int64_t steps = sick.levels[0].first;
    for (const StepLevel& level : sick.levels)
      steps += level.steps;
    CHECK(steps == training.steps());
    const double cost =
        training.step() * (slow * (held - throttled) + slower * (training.steps() - held));
    CHECK(sick.cost / unit::s * training.steps() == Approx(cost).epsilon(0.03));
    check_sum(history);
  }
}

TEST_CASE("131, 96, 40 and 25 thousand tokens a second are four levels") {
  Training training(3);
  const auto steps = training.run([&](int i, double) {
    const double rate = i < 12 ? 131 : i < 20 ? 96 : i < 35 ? 40 : 25;
    return training.step() * (131 / rate - 1);
  });
  const StepPattern& sick = found(step_history(steps), Kind::slowdown);
  REQUIRE(sick.levels.size() == 4);
  constexpr double thousands[] = {131, 96, 40, 25};  // of tokens a second
  for (size_t i = 0; i < 4; ++i)
    CHECK(training.step() / (sick.levels[i].time / unit::s) * 131 ==
          Approx(thousands[i]).epsilon(0.02));
}

TEST_CASE("speed that comes back by itself is no heat") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const int begin = 50 + static_cast<int>(training.between(0, 50)), end = begin + 60;
    const double slow = training.between(0.1, 0.6);
    const StepHistory history = step_history(training.run(
        [&](int i, double) { return i >= begin && i < end ? slow * training.step() : 0; }));
    const StepPattern& spell = found(history, Kind::spell);
    CHECK(spell.cost / unit::s * training.steps() ==
          Approx(60 * slow * training.step()).epsilon(0.05));
    CHECK(history.find(Kind::slowdown) == nullptr);
  }
}

TEST_CASE("faster or slower since a pause is told as that, and not as heat") {
  for (const double other : {0.6, 1.6}) {
    Training training(5);
    const int half = training.steps() / 2;
    const StepHistory history = step_history(
        training.run([&](int i, double) { return i < half ? 0 : (other - 1) * training.step(); },
                     [&](int i) { return i == half - 1 ? 600 : 0; }));
    const StepPattern& levels = found(history, Kind::slowdown);
    CHECK(levels.after_pauses);
    CHECK(levels.levels.size() == 2);
  }
}

TEST_CASE("steps that grow all along are a steady growth, and no single long steps") {
  Training training(6);
  const StepHistory history = step_history(
      training.run([&](int i, double) { return 0.5 * training.step() * i / training.steps(); }));
  const StepPattern& growth = found(history, Kind::drift);
  CHECK(growth.time_constant == Seconds());
  CHECK(growth.amplitude == Approx(0.5).epsilon(0.05));
  CHECK(growth.cost / unit::s == Approx(0.25 * training.step()).epsilon(0.05));
  CHECK(history.find(Kind::tails) == nullptr);
}

TEST_CASE("garbage collection every N steps and a checkpoint are two periods") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const int period = 5 + static_cast<int>(training.between(0, 16));
    const int save = 50, offset = static_cast<int>(training.between(0, period));
    const double collect = training.step() * training.between(0.1, 0.4);
    const double write = training.step() * training.between(4, 12);
    int collected = 0, saved = 0;
    const StepHistory history = step_history(training.run([&](int i, double) {
      const bool collects = i % period == offset, saves = i % save == save - 1;
      collected += collects, saved += saves;
      return (collects ? collect : 0) + (saves ? write : 0);
    }));
    const StepPattern *collecting = nullptr, *saving = nullptr;
    for (const StepPattern& pattern : history.patterns) {
      CHECK(pattern.kind == Kind::periodic);
      if (pattern.period == save) saving = &pattern;
      if (pattern.period == period) collecting = &pattern;
    }
    REQUIRE(saving != nullptr);
    CHECK(saving->cost / unit::s * training.steps() == Approx(saved * write).epsilon(0.1));
    if (period == save) continue;
    REQUIRE(collecting != nullptr);
    CHECK(collecting->cost / unit::s * training.steps() ==
          Approx(collected * collect).epsilon(0.15));
    check_sum(history);
  }
}

TEST_CASE("three checkpoints are a period, and three long steps elsewhere are none") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const int save = training.steps() / 3 - static_cast<int>(training.between(0, 9));
    const auto with = [&](const std::function<bool(int)>& is_long) {
      return step_history(
          training.run([&](int i, double) { return is_long(i) ? 3 * training.step() : 0; }));
    };
    const int missing = seed % 2 == 0 ? 0 : 1;  // the first step, where stamps alone are logged
    const StepHistory saving = with([&](int i) { return (i + 1 + missing) % save == 0; });
    CHECK(found(saving, Kind::periodic).period == save);
    CHECK(saving.find(Kind::tails) == nullptr);
    const int shift = 2 + static_cast<int>(training.between(0, save / 3.0));
    const StepHistory tails = with(
        [&](int i) { return i == save || i == 2 * save + shift || i == 2 * save + 3 * shift; });
    CHECK(found(tails, Kind::tails).count == 3);
    CHECK(tails.find(Kind::periodic) == nullptr);
  }
}

TEST_CASE("single long steps are no period") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    double cost = 0;
    const StepHistory history = step_history(training.run([&](int, double) {
      const double more =
          training.uniform() < 0.03 ? training.step() * training.between(0.3, 3) : 0;
      cost += more;
      return more;
    }));
    CHECK(found(history, Kind::tails).cost / unit::s * training.steps() ==
          Approx(cost).epsilon(0.1));
    CHECK(history.find(Kind::periodic) == nullptr);
  }
}

TEST_CASE("what lies between steps is periodic, always there, or a pause") {
  for (uint64_t seed = 0; seed < trials; ++seed) {
    CAPTURE(seed);
    Training training(seed);
    const double save = training.step() * training.between(2, 9);
    const double load = training.step() * training.between(0.02, 0.1);
    const int down = training.steps() / 2 + 7;
    int saved = 0;
    const StepHistory history = step_history(training.run(
        [](int, double) { return 0; },
        [&](int i) {
          const bool saves = i % 40 == 39 && i + 1 < training.steps();
          saved += saves;
          return (saves ? save : 0) + (i == down ? 300 : 0) + (i + 1 < training.steps() ? load : 0);
        }));
    const StepPattern& saving = found(history, Kind::periodic);
    CHECK(saving.period == 40);
    CHECK(saving.is_pause);
    CHECK(saving.cost / unit::s * training.steps() == Approx(saved * save).epsilon(0.05));
    CHECK(found(history, Kind::between).excess / unit::s == Approx(load).epsilon(0.05));
    CHECK(found(history, Kind::pauses).excess / unit::s == Approx(300).epsilon(0.05));
    check_sum(history);
  }
}

TEST_CASE("a log that prints the mean of ten steps is read line by line") {
  std::vector<run::StepRecord> steps;
  double t = 0;
  for (int line = 0; line < 60; ++line) {
    const double length = 2 * (1 + 0.002 * random_normal({3, 1}, static_cast<uint64_t>(line))) +
                          (line % 5 == 4 ? 0.4 : 0);
    for (int i = 0; i < 10; ++i, t += length)
      steps.push_back({instant_at(t * unit::s), instant_at((t + length) * unit::s), 0, 0});
  }
  const StepHistory history = step_history(steps);
  CHECK(history.steps == 600);
  CHECK(found(history, Kind::periodic).period == 50);
  CHECK(found(history, Kind::periodic).cost / unit::s == Approx(0.08).epsilon(0.05));
}

TEST_CASE("few steps have a mean and nothing else") {
  CHECK(step_history({}).steps == 0);
  std::vector<run::StepRecord> steps;
  for (int i = 0; i < 5; ++i)
    steps.push_back({instant_at(i * 2 * unit::s), instant_at((i * 2 + 2) * unit::s), 0, 0});
  const StepHistory history = step_history(steps);
  CHECK(history.mean / unit::s == Approx(2));
  CHECK(history.patterns.empty());
  steps.push_back({instant_at(3610 * unit::s), instant_at(3612 * unit::s), 0, 0});
  CHECK(found(step_history(steps), Kind::pauses).excess / unit::s == Approx(3600));
  CHECK(step_history(steps).base / unit::s == Approx(2));
}

TEST_CASE("a line that stands for many steps counts as many") {
  std::vector<run::StepRecord> steps = {{Instant(), instant_at(30 * unit::s), 0, 0}};
  for (int i = 0; i < 49; ++i)
    steps.push_back(
        {instant_at((30 + 10 * i) * unit::s), instant_at((40 + 10 * i) * unit::s), 0, 0});
  const StepHistory history = step_history(steps);
  CHECK(history.base / unit::s == Approx(10));
  CHECK(found(history, Kind::start).excess / unit::s == Approx(20));
  CHECK(history.mean / unit::s == Approx(10.4));
}

}  // namespace
}  // namespace triplepoint::metrics
