// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/steady_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
namespace {

constexpr int most_plays = 5;
constexpr double same_time = 1e-4;           // of a step
constexpr Kelvins settled = 0.01 * unit::K;  // of a die, between two looks at one step time
constexpr double same_ceiling = 0.01;        // clock steps

Kelvins largest_move(const std::vector<Celsius>& a, const std::vector<Celsius>& b) {
  Kelvins move;
  for (size_t i = 0; i < a.size(); ++i)
    move = std::max(move, abs(a[i] - b[i]));
  return move;
}

/// A die that no clock keeps from running away has no steady state; far past any shutdown
/// temperature it does not matter how hot it is.
std::vector<Celsius> as_far_as_leakage_is_known(std::vector<Celsius> dies) {
  constexpr Celsius hottest(150);
  for (Celsius& die : dies)
    die = std::min(die, hottest);
  return dies;
}

/// A job on its way to rest.
class Balance {
 public:
  Balance(StepModel& model, ClusterHeat& heat) : model_(model), heat_(heat) {}

  CoupledStep solve() {
    heat_.settle(std::vector<Watts>(static_cast<size_t>(model_.job.cluster.num_gpus()),
                                    0.8 * model_.job.power_limit()));
    step_ = step_at(model_, heat_.dies());
    while (step_.rounds < most_plays) {
      const Seconds length = settle_clocks();
      play();
      const bool agrees = abs(step_.played.step_time - length) <= same_time * length;
      // The waits in lockstep with a slower team were only known after the play.
      if (agrees && (!heat_holds_some() || step_.rounds > 2)) break;
    }
    rest();
    return std::move(step_);
  }

 private:
  /// Clocks for the schedule as it was played last, and how long a step takes with them: the length
  /// at which the slowest device just keeps up. Below it that device sets the pace, whatever length
  /// is assumed, so the length that follows is a bound from above; a longer step lets all of them
  /// go faster. Regula falsi (Illinois) between the two.
  Seconds settle_clocks() {
    constexpr int most_lengths = 12;
    Seconds low = step_.played.step_time;
    settle_devices(low);
    if (!heat_holds_some()) return low;
    Seconds short_by = length_needed() - low;
    if (abs(short_by) <= 0.5 * same_time * low) return low;
    Seconds high = low + short_by, length = high, long_by;
    bool known = false;  // whether `high` was tried
    int side = 0;
    for (int i = 0; i < most_lengths; ++i) {
      settle_devices(length);
      const Seconds excess = length_needed() - length;
      if (abs(excess) <= 0.5 * same_time * length) break;
      if (excess > Seconds()) {
        low = length;
        short_by = excess;
        if (side == 1) long_by *= 0.5;
        side = 1;
      } else {
        high = length;
        long_by = -excess;
        if (side == -1) short_by *= 0.5;
        side = -1;
        known = true;
      }
      if (!known) {
        high = length + 2 * excess;
        length = high;
        continue;
      }
      length = low + (high - low) * (short_by / (short_by + long_by));
    }
    return length;
  }

  /// The schedule's length at the present clocks, from the one that was played: a team that works
  /// longer than it did delays the end by so much, less what it waited more than others did.
  Seconds length_needed() const {
    Seconds least_waiting = std::numeric_limits<double>::infinity() * unit::s;
    for (const auto& pipeline : step_.accounted.teams)
      for (const TeamStep& team : pipeline)
        least_waiting = std::min(least_waiting, team.outside.waiting);
    Seconds longest = -std::numeric_limits<double>::infinity() * unit::s;
    for (size_t p = 0; p < model_.pipelines.size(); ++p)
      for (size_t s = 0; s < model_.pipelines[p].teams.size(); ++s) {
        const TeamStep& team = step_.accounted.teams[p][s];
        const Seconds slack = team.outside.waiting - least_waiting;
        longest = std::max(longest, work_of(p, s) - team.in_phases - slack);
      }
    return step_.played.step_time + longest;
  }

  /// Phases of a team at the pace of its slowest members now, and what lies between.
  Seconds work_of(size_t pipeline, size_t stage) const {
    Seconds work;
    for (size_t u = 0; u < model_.uses[stage].size(); ++u) {
      Seconds slowest;
      for (const int64_t device : model_.pipelines[pipeline].teams[stage].devices)
        slowest = std::max(slowest, step_.clocks.devices[static_cast<size_t>(device)][u].duration);
      work += static_cast<double>(model_.uses[stage][u].count) * slowest +
              step_.accounted.teams[pipeline][stage].between[u].duration;
    }
    return work;
  }

  /// Temperatures, clocks and ceilings that go with a step of this length.
  void settle_devices(Seconds length) {
    constexpr int most_looks = 12, looks_both_ways = 2;
    account({}, {}, length);
    for (int look = 0; look < most_looks; ++look) {
      model_.set_dies(as_far_as_leakage_is_known(step_.dies), step_.accounted.devices);
      const std::vector<Watts> powers = mean_powers(step_.accounted.devices);
      heat_.settle(powers);
      std::vector<Celsius> dies = heat_.dies();
      const Kelvins move = largest_move(dies, step_.dies);
      step_.dies = std::move(dies);
      const std::vector<double> ceilings = heat_ceilings(powers, length);
      const Hysteresis hysteresis = look >= looks_both_ways
                                        ? Hysteresis::only_down
                                        : (step_.rounds == 1 ? Hysteresis::none : Hysteresis::some);
      std::vector<char> changed =
          model_.update_clocks(step_.dies, ceilings, hysteresis, step_.clocks);
      const bool any = std::ranges::find(changed, 1) != changed.end();
      if (any) account({}, std::move(changed), length);
      if (move < settled && !any) return;
    }
  }

  /// The ceiling at which each device's own power would bring its die to the held temperature.
  std::vector<double> heat_ceilings(const std::vector<Watts>& powers, Seconds length) {
    std::vector<double> ceilings = step_.clocks.heat_ceiling;
    const auto held = clock::held_temperature(*model_.job.cluster.gpu.governor);
    if (!held) return ceilings;
    std::vector<size_t> hot;
    for (size_t d = 0; d < ceilings.size(); ++d)
      if (ceilings[d] > 0 || step_.dies[d] > *held) hot.push_back(d);
    parallel_for(hot.size(), model_.threads_for(hot.size()), [&](size_t i) {
      const size_t d = hot[i];
      const Watts allowed = powers[d] + (*held - step_.dies[d]) / heat_.own_resistance(d);
      const double ceiling =
          clock::ceiling_for(0, model_.most_steps_down(), allowed, [&](double steps) {
            return model_.power_under_ceiling(step_.clocks, step_.played, step_.accounted, d,
                                              {steps, length, *held});
          });
      if (std::abs(ceiling - ceilings[d]) > same_ceiling || ceiling == 0) ceilings[d] = ceiling;
    });
    return ceilings;
  }

  bool heat_holds_some() const {
    return std::ranges::any_of(step_.clocks.heat_ceiling, [](double h) { return h > 0; });
  }

  void play() {
    std::vector<char> replayed = model_.play_again(step_.clocks, step_.played);
    ++step_.rounds;
    account(std::move(replayed), {}, step_.played.step_time);
  }

  void account(std::vector<char> pipelines, std::vector<char> devices, Seconds length) {
    pipelines.resize(model_.pipelines.size(), 0);
    devices.resize(step_.dies.size(), 0);
    model_.account_again(step_.clocks, step_.played,
                         {.pipelines = std::move(pipelines), .devices = std::move(devices)}, length,
                         step_.accounted);
  }

  /// Powers and temperatures that belong to each other and to the step that was played last.
  void rest() {
    constexpr int looks = 2;
    for (int look = 0; look < looks; ++look) {
      model_.set_dies(as_far_as_leakage_is_known(step_.dies), step_.accounted.devices);
      heat_.settle(mean_powers(step_.accounted.devices));
      step_.dies = heat_.dies();
    }
    model_.set_dies(as_far_as_leakage_is_known(step_.dies), step_.accounted.devices);
    model_.set_phase_powers(step_.dies, step_.clocks);
  }

  StepModel& model_;
  ClusterHeat& heat_;
  CoupledStep step_;
};

}  // namespace

std::vector<Watts> mean_powers(const std::vector<DeviceStep>& devices) {
  std::vector<Watts> powers;
  powers.reserve(devices.size());
  for (const DeviceStep& device : devices)
    powers.push_back(device.mean_power);
  return powers;
}

CoupledStep solve_steady_state(StepModel& model, ClusterHeat& heat) {
  return Balance(model, heat).solve();
}

CoupledStep step_at(StepModel& model, std::vector<Celsius> dies) {
  CoupledStep step;
  step.clocks = model.choose_clocks(dies);
  step.played = model.play_step(step.clocks);
  step.accounted = model.account(step.clocks, step.played);
  model.set_dies(dies, step.accounted.devices);
  step.dies = std::move(dies);
  return step;
}

void update_step(StepModel& model, std::vector<Celsius> dies, std::span<const double> heat_ceiling,
                 CoupledStep& step) {
  std::vector<char> changed =
      model.update_clocks(dies, heat_ceiling, Hysteresis::some, step.clocks);
  if (std::ranges::find(changed, 1) != changed.end()) {
    std::vector<char> replayed = model.play_again(step.clocks, step.played);
    ++step.rounds;
    model.account_again(step.clocks, step.played,
                        {.pipelines = std::move(replayed), .devices = std::move(changed)},
                        step.played.step_time, step.accounted);
  }
  model.set_dies(dies, step.accounted.devices);
  step.dies = std::move(dies);
}

std::optional<size_t> device_shut_down(const spec::Gpu& gpu, std::span<const Celsius> dies) {
  const auto hottest = std::ranges::max_element(dies);
  if (!gpu.governor->shutdown_temperature || *hottest < *gpu.governor->shutdown_temperature)
    return std::nullopt;
  return static_cast<size_t>(hottest - dies.begin());
}

}  // namespace triplepoint::sim
