// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/settle.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

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

/// Recognizes a state that has been there before, bit for bit: what follows is known then.
class Repetition {
 public:
  /// After how many rounds states come again; nothing while they are new.
  std::optional<int> period(const std::vector<Celsius>& dies, const ClusterHeat& heat) {
    std::vector<double> flows;
    for (int64_t node = 0; node < heat.num_nodes(); ++node)
      flows.push_back(heat.flow_share(node));
    for (size_t back = 1; back <= seen_.size(); ++back) {
      const Seen& then = seen_[seen_.size() - back];
      if (then.flows == flows && then.dies == dies) return static_cast<int>(back);
    }
    if (seen_.size() == longest_period) seen_.erase(seen_.begin());
    seen_.push_back({dies, std::move(flows)});
    return std::nullopt;
  }

 private:
  static constexpr size_t longest_period = 12;
  struct Seen {
    std::vector<Celsius> dies;
    std::vector<double> flows;
  };
  std::vector<Seen> seen_;
};

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
  if (changed) model.play_again(step.clocks, step.played);
  step.devices = model.account(step.clocks, step.played, dies);
  step.dies = std::move(dies);
  return changed;
}

CoupledStep settle(StepModel& model, ClusterHeat& heat) {
  heat.settle(std::vector<Watts>(static_cast<size_t>(model.job.cluster.num_gpus()),
                                 0.8 * model.job.power_limit()));
  CoupledStep step = step_at(model, heat.dies());
  Repetition repetition;
  int last_round = most_rounds;
  for (int round = 1; round < last_round; ++round) {
    heat.settle(mean_powers(step.devices));
    std::vector<Celsius> dies = heat.dies();
    if (last_round == most_rounds)
      if (const auto period = repetition.period(dies, heat))
        last_round = round + 1 + (most_rounds - 1 - round) % *period;
    const bool at_rest = largest_move(dies, step.dies) < settled;
    const bool changed = update_step(model, std::move(dies), step);
    step.rounds = round;
    if (at_rest && !changed) return step;
  }
  step.limit_cycle = true;
  return step;
}

}  // namespace triplepoint::sim
