// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/schedule.h"

#include <algorithm>
#include <optional>

#include <doctest/doctest.h>

namespace triplepoint::workload {
namespace {

using spec::Schedule;

/// Microbatches whose activations a stage holds at most (in units of one chunk's activations).
/// Activations are let go by the weight gradient, the last to need them.
int64_t peak_in_flight(const StageProgram& program) {
  const bool split = std::ranges::any_of(
      program, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
  int64_t now = 0, peak = 0;
  for (const Action& action : program) {
    if (action.kind == ActionKind::forward) peak = std::max(peak, ++now);
    if (action.kind == (split ? ActionKind::backward_weight : ActionKind::backward)) --now;
  }
  return peak;
}

/// How long each kind of action takes, for a whole stage; a chunk takes its part.
struct Durations {
  double forward = 1, backward_input = 1, backward_weight = 1;
};

/// Runs programs as soon as dependencies allow, and returns when each stage ends; nothing if they
/// wait for each other for ever.
class ProgramRunner {
 public:
  ProgramRunner(const std::vector<StageProgram>& programs, int64_t microbatches, int64_t chunks,
                Durations durations)
      : programs_(programs),
        stages_(programs.size()),
        chunks_(as_size(chunks)),
        microbatches_(as_size(microbatches)),
        durations_(durations),
        forward_done_(stages_ * chunks_ * microbatches_),
        backward_done_(stages_ * chunks_ * microbatches_) {}

  std::optional<double> makespan() {
    std::vector<size_t> next(stages_, 0);
    std::vector<double> now(stages_, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t stage = 0; stage < stages_; ++stage)
        while (next[stage] < programs_[stage].size() && run(stage, next[stage], now[stage])) {
          ++next[stage];
          moved = true;
        }
    }
    for (size_t stage = 0; stage < stages_; ++stage)
      if (next[stage] < programs_[stage].size()) return std::nullopt;
    return *std::ranges::max_element(now);
  }

 private:
  using Times = std::vector<std::optional<double>>;

  size_t slot(size_t part, const Action& action) const {
    return part * microbatches_ + as_size(action.microbatch);
  }

  bool run(size_t stage, size_t index, double& now) {
    const Action& action = programs_[stage][index];
    const size_t part = as_size(action.chunk) * stages_ + stage;
    const double share = 1.0 / as_real(chunks_);
    if (action.kind == ActionKind::forward) {
      if (part > 0 && !wait(forward_done_[slot(part - 1, action)], now)) return false;
      now += durations_.forward * share;
      forward_done_[slot(part, action)] = now;
      return true;
    }
    if (action.kind == ActionKind::backward_weight) {
      if (!wait(backward_done_[slot(part, action)], now)) return false;
      now += durations_.backward_weight * share;
      return true;
    }
    const bool last = part + 1 == stages_ * chunks_;
    if (!wait(forward_done_[slot(part, action)], now)) return false;
    if (!last && !wait(backward_done_[slot(part + 1, action)], now)) return false;
    const bool whole = action.kind == ActionKind::backward;
    now += (durations_.backward_input + (whole ? durations_.backward_weight : 0)) * share;
    backward_done_[slot(part, action)] = now;
    return true;
  }

  static bool wait(const std::optional<double>& until, double& now) {
    if (until) now = std::max(now, *until);
    return until.has_value();
  }

  const std::vector<StageProgram>& programs_;
  size_t stages_, chunks_, microbatches_;
  Durations durations_;
  Times forward_done_, backward_done_;
};

struct Case {
  Schedule schedule;
  int64_t stages, microbatches, chunks;
};

std::vector<Case> many_cases() {
  std::vector<Case> cases;
  for (const int64_t stages : {1, 2, 3, 4, 8, 16})
    for (const int64_t rounds : {1, 2, 5}) {
      const int64_t microbatches = stages * rounds;
      for (const Schedule schedule :
           {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble})
        cases.push_back({schedule, stages, microbatches, 1});
      for (const int64_t chunks : {2, 3, 4})
        cases.push_back({Schedule::interleaved, stages, microbatches, chunks});
    }
  return cases;
}

std::optional<double> makespan(const Case& c, Durations durations = {}) {
  const auto programs = build_schedule(c.schedule, c.stages, c.microbatches, c.chunks);
  return ProgramRunner(programs, c.microbatches, c.chunks, durations).makespan();
}

TEST_CASE("no schedule waits for itself, whatever the shapes") {
  for (const Case& c : many_cases())
    CHECK(makespan(c));
  for (const int64_t microbatches : {1, 2, 3, 7, 13})
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble})
      CHECK(makespan({schedule, 5, microbatches, 1}));
}

TEST_CASE("the simulated bubble equals the closed form") {
  for (const Case& c : many_cases()) {
    const double total = *makespan(c);
    const double busy = 3.0 * as_real(c.microbatches);
    CHECK((total - busy) / total ==
          doctest::Approx(bubble_fraction(c.schedule, c.stages, c.microbatches, c.chunks)));
  }
}

TEST_CASE("the 1F1B bubble takes (p-1) of (m+p-1) slots at any ratio of backward to forward") {
  for (const double backward : {0.5, 1.0, 2.0, 3.0}) {
    const Durations durations{1, backward / 2, backward / 2};
    const double total = *makespan({Schedule::one_f_one_b, 8, 32, 1}, durations);
    CHECK(total == doctest::Approx((32 + 8 - 1) * (1 + backward)));
  }
}

TEST_CASE("putting off weight gradients shortens 1F1B wherever there is a bubble") {
  for (const int64_t stages : {2, 4, 8})
    for (const int64_t microbatches : {4, 8, 24})
      CHECK(*makespan({Schedule::zero_bubble, stages, microbatches, 1}) <
            *makespan({Schedule::one_f_one_b, stages, microbatches, 1}));
}

TEST_CASE("every microbatch passes every chunk once forward and once backward") {
  for (const Case& c : many_cases())
    for (const StageProgram& program :
         build_schedule(c.schedule, c.stages, c.microbatches, c.chunks)) {
      std::vector<int> forward(as_size(c.microbatches * c.chunks));
      std::vector<int> input = forward, weight = forward;
      for (const Action& action : program) {
        const auto slot = as_size(action.chunk * c.microbatches + action.microbatch);
        forward[slot] += action.kind == ActionKind::forward ? 1 : 0;
        input[slot] +=
            action.kind == ActionKind::backward || action.kind == ActionKind::backward_input ? 1
                                                                                             : 0;
        weight[slot] +=
            action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight ? 1
                                                                                              : 0;
      }
      const std::vector<int> once(forward.size(), 1);
      CHECK(forward == once);
      CHECK(input == once);
      CHECK(weight == once);
    }
}

TEST_CASE("1F1B holds min(p - stage, m) microbatches, GPipe all of them") {
  for (const int64_t microbatches : {2, 8, 32}) {
    const auto alternating = build_schedule(Schedule::one_f_one_b, 8, microbatches, 1);
    const auto together = build_schedule(Schedule::gpipe, 8, microbatches, 1);
    for (int64_t stage = 0; stage < 8; ++stage) {
      const auto index = as_size(stage);
      CHECK(peak_in_flight(alternating[index]) == std::min<int64_t>(8 - stage, microbatches));
      CHECK(peak_in_flight(together[index]) == microbatches);
    }
  }
}

TEST_CASE("ZB-H1 needs no more memory than 1F1B") {
  for (const int64_t stages : {2, 4, 8})
    for (const int64_t microbatches : {2, 8, 32}) {
      const auto peak = [&](Schedule schedule) {
        return most_of(build_schedule(schedule, stages, microbatches, 1),
                       [&](const auto& program) { return peak_in_flight(program); });
      };
      CHECK(peak(Schedule::zero_bubble) == peak(Schedule::one_f_one_b));
    }
}

TEST_CASE("the first interleaved stage holds 1 + (p-1)/(v p) times the activations of 1F1B") {
  // Narayanan et al. SC'21 and Korthikanti et al. 2022, section 4.2.3.
  const int64_t p = 8, v = 4, m = 32;
  const auto programs = build_schedule(Schedule::interleaved, p, m, v);
  const double layers_of_one_chunk = 1.0 / as_real(v);
  const double held = as_real(peak_in_flight(programs[0])) * layers_of_one_chunk;
  CHECK(held == doctest::Approx(p * (1 + (p - 1.0) / as_real(p * v))));
}

TEST_CASE("phases come in order: warm-up, steady, cool-down") {
  for (const Case& c : many_cases())
    for (const StageProgram& program :
         build_schedule(c.schedule, c.stages, c.microbatches, c.chunks))
      CHECK(std::ranges::is_sorted(program, {}, &Action::phase));
}

}  // namespace
}  // namespace triplepoint::workload
