// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/microbatch_swing.h"

#include <algorithm>
#include <vector>

#include "triplepoint/power/power.h"
#include "triplepoint/power/sensor.h"
#include "triplepoint/sim/phase_windows.h"

namespace triplepoint::sim {
namespace {

constexpr double low_share = 0.05, high_share = 0.95;

/// The power below which the ops are for this share of their time. Ascending powers.
Watts quantile_of(const std::vector<power::PowerPiece>& pieces, double share) {
  Seconds total, before;
  for (const power::PowerPiece& piece : pieces)
    total += piece.duration;
  for (const power::PowerPiece& piece : pieces)
    if ((before += piece.duration) >= share * total) return piece.power;
  return pieces.back().power;
}

Watts swing_of_stage(StepModel& model, const CoupledStep& step, const LockstepGroup& group) {
  const auto device = static_cast<size_t>(group.devices.front());
  std::vector<power::PowerPiece> pieces;
  for (size_t u = 0; u < step.clocks.devices[device].size(); ++u) {
    const PhaseUse& use = model.uses[static_cast<size_t>(group.stage)][u];
    if (use.count == 0) continue;
    const int64_t index = step.clocks.devices[device][u].clock_index;
    for (const RepeatedRow& row : repeated_rows(model.table(group, use), index, group.host_factor))
      for (const spec::GpuLoad& load : row.row)
        pieces.push_back(
            {row.repeat * load.duration,
             power::gpu_power(model.power(), load, model.clocks()[static_cast<size_t>(index)],
                              step.dies[device], model.hardware.boards[device])});
  }
  if (pieces.empty()) return {};
  std::ranges::sort(pieces, {}, &power::PowerPiece::power);
  return quantile_of(pieces, high_share) - quantile_of(pieces, low_share);
}

}  // namespace

Watts microbatch_swing(StepModel& model, const CoupledStep& step) {
  Watts sum;
  const std::vector<LockstepGroup>& groups = model.pipelines.front().groups;
  for (const LockstepGroup& group : groups)
    sum += swing_of_stage(model, step, group);
  return sum / static_cast<double>(groups.size());
}

}  // namespace triplepoint::sim
