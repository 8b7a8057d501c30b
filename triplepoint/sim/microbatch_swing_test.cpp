// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/microbatch_swing.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/sim/jobs_testing.h"
#include "triplepoint/sim/phase_windows.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

CoupledStep steady(StepModel& model) {
  ClusterHeat heat = *make_heat(model.job, model.hardware);
  return solve_steady_state(model, heat);
}

/// Every op of every layer in turn, where the model takes each group of ops once.
Watts swing_of_all_ops(StepModel& model, const CoupledStep& step, const LockstepGroup& group) {
  const auto device = static_cast<size_t>(group.devices.front());
  std::vector<std::pair<Watts, Seconds>> ops;
  Seconds total;
  for (size_t u = 0; u < step.clocks.devices[device].size(); ++u) {
    const PhaseUse& use = model.uses[static_cast<size_t>(group.stage)][u];
    const int64_t index = step.clocks.devices[device][u].clock_index;
    PhaseTable& table = model.table(group, use);
    for (const spec::GpuLoad& load : row_of(table, index, group.host_factor, 1000 * unit::s)) {
      ops.emplace_back(power::gpu_power(model.power(), load, table.ratio(index), step.dies[device],
                                        model.hardware.boards[device]),
                       load.duration);
      total += load.duration;
    }
  }
  std::ranges::sort(ops);
  const auto at = [&](double share) {
    Seconds before;
    for (const auto& [power, duration] : ops)
      if ((before += duration) >= share * total) return power;
    return ops.back().first;
  };
  return at(0.95) - at(0.05);
}

TEST_CASE("power swings within a microbatch as the ops of all its layers do") {
  for (const uint64_t seed : {1, 2, 3, 5}) {
    StepModel model(random_training_job(seed));
    const CoupledStep step = steady(model);
    Watts sum;
    for (const LockstepGroup& group : model.pipelines.front().groups)
      sum += swing_of_all_ops(model, step, group);
    const double stages = static_cast<double>(model.pipelines.front().groups.size());
    CHECK(microbatch_swing(model, step) > Watts());
    CHECK(microbatch_swing(model, step) / unit::W == Approx(sum / unit::W / stages).epsilon(0.01));
  }
}

}  // namespace
}  // namespace triplepoint::sim
