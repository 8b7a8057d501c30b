// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/settle.h"

#include <algorithm>

namespace triplepoint::sim {
namespace {

constexpr int most_rounds = 40;
constexpr Kelvins settled = 0.1 * unit::K;

Kelvins largest_move(const std::vector<Celsius>& a, const std::vector<Celsius>& b) {
  Kelvins move;
  for (size_t i = 0; i < a.size(); ++i)
    move = std::max(move, abs(a[i] - b[i]));
  return move;
}

}  // namespace

std::vector<Watts> mean_powers(const std::vector<DeviceStep>& devices) {
  std::vector<Watts> powers;
  powers.reserve(devices.size());
  for (const DeviceStep& device : devices)
    powers.push_back(device.mean_power);
  return powers;
}

CoupledStep step_at(StepModel& model, std::vector<Celsius> dies, const CoupledStep* previous) {
  CoupledStep step;
  step.clocks = model.choose_clocks(dies);
  const bool same = previous && step.clocks.same_clocks(previous->clocks);
  step.played = same ? previous->played : model.play_step(step.clocks);
  step.devices = model.account(step.clocks, step.played, dies);
  step.dies = std::move(dies);
  return step;
}

CoupledStep settle(StepModel& model, ClusterHeat& heat) {
  heat.settle(std::vector<Watts>(static_cast<size_t>(model.job.cluster.num_gpus()),
                                 0.8 * model.job.power_limit()));
  CoupledStep step = step_at(model, heat.dies(), nullptr);
  for (int round = 1; round < most_rounds; ++round) {
    heat.settle(mean_powers(step.devices));
    CoupledStep next = step_at(model, heat.dies(), &step);
    const bool at_rest =
        largest_move(next.dies, step.dies) < settled && next.clocks.same_clocks(step.clocks);
    step = std::move(next);
    step.rounds = round;
    if (at_rest) return step;
  }
  step.limit_cycle = true;
  return step;
}

}  // namespace triplepoint::sim
