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

CoupledStep step_at(StepModel& model, std::vector<Celsius> dies) {
  CoupledStep step;
  step.clocks = model.choose_clocks(dies);
  step.played = model.play_step(step.clocks);
  step.devices = model.account(step.clocks, step.played, dies);
  step.dies = std::move(dies);
  return step;
}

bool update_step(StepModel& model, std::vector<Celsius> dies, CoupledStep& step) {
  ClockState clocks = model.choose_clocks(dies, &step.clocks);
  const bool changed = !clocks.same_clocks(step.clocks);
  step.clocks = std::move(clocks);
  if (changed) step.played = model.play_step(step.clocks);
  step.devices = model.account(step.clocks, step.played, dies);
  step.dies = std::move(dies);
  return changed;
}

CoupledStep settle(StepModel& model, ClusterHeat& heat) {
  heat.settle(std::vector<Watts>(static_cast<size_t>(model.job.cluster.num_gpus()),
                                 0.8 * model.job.power_limit()));
  CoupledStep step = step_at(model, heat.dies());
  for (int round = 1; round < most_rounds; ++round) {
    heat.settle(mean_powers(step.devices));
    std::vector<Celsius> dies = heat.dies();
    const bool at_rest = largest_move(dies, step.dies) < settled;
    const bool changed = update_step(model, std::move(dies), step);
    step.rounds = round;
    if (at_rest && !changed) return step;
  }
  step.limit_cycle = true;
  return step;
}

}  // namespace triplepoint::sim
