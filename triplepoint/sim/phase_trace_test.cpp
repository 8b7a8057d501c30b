// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/phase_trace.h"

#include <array>

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

TEST_CASE("a phase as a trace has the phase's length and mean power") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    StepModel model(random_training_job(seed));
    for (const LockstepGroup& group : model.pipelines.front().groups)
      for (const PhaseUse& use : model.uses[as_size(group.stage)]) {
        const PhasePoint whole = model.table(group, use).at(0, group.host_factor);
        if (whole.duration <= Seconds()) continue;
        const power::PowerTrace trace = phase_trace(model, {group, use, 0}, 1000 * unit::s);
        constexpr std::array from_begin = {Seconds()};
        const power::BoardPower mean =
            power::window_means(trace, from_begin, 2 * whole.duration).front();
        const power::BoardPower expected =
            power::board_power(model.power(), whole.load, model.clocks()[0]);
        CHECK(power::length_of(trace) / whole.duration == Approx(1));
        CHECK(mean.fixed / expected.fixed == Approx(1).epsilon(0.01));
        CHECK(mean.dynamic / expected.dynamic == Approx(1).epsilon(0.01));
      }
  }
}

TEST_CASE("what a window shorter than the kept layers sees does not depend on how many are kept") {
  StepModel model(random_training_job(3));
  const LockstepGroup& group = model.pipelines.front().groups.front();
  const PhaseUse& use = model.uses.front().front();
  const Seconds window = 0.1 * model.table(group, use).at(0, group.host_factor).duration;
  const auto highest = [&](Seconds kept) {
    return power::highest_windows(phase_trace(model, {group, use, 0}, kept), window);
  };
  for (const double dynamic : {0.9, 1.0, 1.1}) {
    const power::Board board{.dynamic_energy = dynamic, .leakage = 30 * unit::W};
    CHECK(board.highest(highest(window)) / unit::W ==
          Approx(board.highest(highest(1000 * unit::s)) / unit::W));
  }
}

CoupledStep steady(StepModel& model) {
  ClusterHeat heat = *make_heat(model.job, model.hardware);
  return solve_steady_state(model, heat);
}

/// Every op of every layer in turn, where the model takes each group of ops once.
Watts swing_of_all_ops(StepModel& model, const CoupledStep& step, const LockstepGroup& group) {
  const auto device = as_size(group.devices.front());
  std::vector<power::PowerPiece> ops;
  for (size_t u = 0; u < step.clocks.devices[device].size(); ++u) {
    const PhaseUse& use = model.uses[as_size(group.stage)][u];
    const int64_t index = step.clocks.devices[device][u].clock_index;
    const power::Board board = power::board_at(model.power(), model.clocks()[as_size(index)],
                                               step.dies[device], model.hardware.boards[device]);
    for (const auto& piece : phase_trace(model, {group, use, index}, 1000 * unit::s))
      ops.push_back({piece.duration, board.power(piece.power)});
  }
  return power::quantile(ops, 0.95) - power::quantile(ops, 0.05);
}

TEST_CASE("power swings within a microbatch as the ops of all its layers do") {
  for (const uint64_t seed : {1, 2, 3, 5}) {
    StepModel model(random_training_job(seed));
    const CoupledStep step = steady(model);
    Watts sum;
    for (const LockstepGroup& group : model.pipelines.front().groups)
      sum += swing_of_all_ops(model, step, group);
    const double stages = as_real(model.pipelines.front().groups.size());
    CHECK(microbatch_swing(model, step) > Watts());
    CHECK(microbatch_swing(model, step) / unit::W == Approx(sum / unit::W / stages).epsilon(0.01));
  }
}

}  // namespace
}  // namespace triplepoint::sim
