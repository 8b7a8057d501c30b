// SPDX-License-Identifier: Apache-2.0
// Where power, heat, clocks and the schedule agree.
//
// Two loops lie inside each other. For a given step length each node is solved for itself: power
// sets temperatures, temperatures set leakage and clocks, and a few rounds agree to 0.01 K. The
// outer loop is over the step length alone, because that is all through which devices of different
// nodes act on each other: a longer step gives every device more time to wait and cool. The
// schedule itself is simulated only once per outer round; in between, length_needed() predicts it
// from the waits of the last one. Near the end clocks only go down (Hysteresis), or a device that
// heat holds between two clocks would swing between them.
//
// Plain iteration over all three (clocks, temperatures, step length) may end in a limit cycle: a
// hot device lowers its clock, the step gets longer, others cool and raise theirs, and so on. So
// the length, which couples the nodes, is found as a root, and clocks only fall in late rounds.
// Every loop has a bound on its rounds, and a die that runs away is held where leakage is known, so
// the solution ends also for a job that no clock can hold.
//
// The result's schedule, account and temperatures belong to each other (rest()); its clocks were
// chosen one round before, at temperatures that are the same within the tolerances below once the
// loops have converged.
#include "triplepoint/sim/steady_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
namespace {

constexpr int max_schedules = 5;
constexpr double time_tolerance = 1e-4;            // of a step
constexpr Kelvins die_tolerance = 0.01 * unit::K;  // of a die, between two looks at one step time
constexpr double ceiling_tolerance = 0.01;         // clock steps

Kelvins largest_move(const std::vector<Celsius>& a, const std::vector<Celsius>& b) {
  Kelvins move;
  for (size_t i = 0; i < a.size(); ++i)
    move = std::max(move, abs(a[i] - b[i]));
  return move;
}

/// A die that no clock keeps from running away has no steady state; far past any shutdown
/// temperature it does not matter how hot it is.
std::vector<Celsius> clamp_dies(std::vector<Celsius> dies) {
  constexpr Celsius hottest(150);
  for (Celsius& die : dies)
    die = std::min(die, hottest);
  return dies;
}

/// Finds where a job comes to rest.
class SteadyStateSolver {
 public:
  SteadyStateSolver(StepModel& model, ClusterHeat& heat) : model_(model), heat_(heat) {}

  CoupledStep solve() {
    // Any start gives the same answer within tolerances; most jobs run somewhat below their cap, so
    // temperatures begin near the end and few rounds follow.
    heat_.solve_steady_state(
        std::vector<Watts>(as_size(model_.job.cluster.num_gpus()), 0.8 * model_.job.power_limit()));
    step_ = step_at(model_, heat_.dies());
    while (step_.rounds < max_schedules) {
      const Seconds length = solve_clocks();
      update_schedule();
      const bool agrees = abs(step_.timeline.step_time - length) <= time_tolerance * length;
      // The waits in lockstep with a slower lockstep group were only known once its schedule is
      // there.
      if (agrees && (!heat_holds_some() || step_.rounds > 2)) break;
    }
    rest();
    return std::move(step_);
  }

 private:
  /// Clocks for the schedule as it was simulated last, and how long a step takes with them: the
  /// length at which the slowest device just keeps up. Below it that device sets the pace, whatever
  /// length is assumed, so the length that follows is a bound from above; a longer step lets all of
  /// them go faster. Regula falsi (Illinois) between the two.
  Seconds solve_clocks() {
    constexpr int max_lengths = 12;
    // At the length that was simulated last, excess(length) = needed - length is positive if clocks
    // have fallen since, negative if they have risen. It bounds the way to the root while one
    // device sets the pace; otherwise the length moves by twice the excess until the sign changes.
    Seconds length = step_.timeline.step_time;
    solve_devices(length);
    if (!heat_holds_some()) return length;
    Seconds excess = length_needed() - length;
    std::optional<Bound> low, high;
    for (int i = 0; i < max_lengths && abs(excess) > 0.5 * time_tolerance * length; ++i) {
      std::optional<Bound>& moved = excess > Seconds() ? low : high;
      std::optional<Bound>& kept = excess > Seconds() ? high : low;
      // Illinois: the end that stays twice counts half, or one end would stay for good and the
      // method would converge linearly.
      if (kept && kept->stays) kept->excess *= 0.5;
      if (kept) kept->stays = true;
      moved = Bound{length, excess, false};
      if (low && high)
        length = low->length +
                 (high->length - low->length) * (low->excess / (low->excess - high->excess));
      else
        length += (i == 0 ? 1 : 2) * excess;
      solve_devices(length);
      excess = length_needed() - length;
    }
    return length;
  }

  /// A length that was tried: too short where the excess is positive.
  struct Bound {
    Seconds length, excess;
    bool stays;
  };

  /// The schedule's length at the present clocks, from the one that was simulated: a group that
  /// works longer than it did delays the end by so much, less what it waited more than others did.
  Seconds length_needed() const {
    // The group that waits least is taken as the critical path; what another waits more is its
    // slack, by which it may become longer without delaying the step. An estimate: fill and drain
    // of a pipeline change as well. The next schedule corrects it.
    Seconds least_waiting = std::numeric_limits<double>::infinity() * unit::s;
    for (const auto& pipeline : step_.accounted.groups)
      for (const GroupStep& group : pipeline)
        least_waiting = std::min(least_waiting, group.outside.waiting);
    Seconds longest = -std::numeric_limits<double>::infinity() * unit::s;
    for (size_t p = 0; p < model_.pipelines.size(); ++p)
      for (size_t s = 0; s < model_.pipelines[p].groups.size(); ++s) {
        const GroupStep& group = step_.accounted.groups[p][s];
        const Seconds slack = group.outside.waiting - least_waiting;
        longest = std::max(longest, work_of(p, s) - group.in_phases - slack);
      }
    return step_.timeline.step_time + longest;
  }

  /// Phases of a lockstep group at the pace of its slowest members now, and what lies between.
  Seconds work_of(size_t pipeline, size_t stage) const {
    Seconds work;
    for (size_t u = 0; u < model_.uses[stage].size(); ++u) {
      Seconds slowest;
      for (const int64_t device : model_.pipelines[pipeline].groups[stage].devices)
        slowest = std::max(slowest, step_.clocks.devices[as_size(device)][u].duration);
      work += as_real(model_.uses[stage][u].count) * slowest +
              step_.accounted.groups[pipeline][stage].between[u].duration;
    }
    return work;
  }

  /// Temperatures, clocks and ceilings that go with a step of this length.
  void solve_devices(Seconds length) {
    // The first looks let clocks rise and fall, so that a bad start is forgotten. From then on they
    // only fall: with discrete clocks a device may have no fixed point (at the higher clock its die
    // is too hot for the cap, at the lower one cool enough for the higher), and would alternate for
    // ever.
    constexpr int max_iterations = 12, looks_both_ways = 2;
    account({}, {}, length);
    for (int look = 0; look < max_iterations; ++look) {
      set_dies(model_, clamp_dies(step_.dies), step_.accounted.devices);
      const std::vector<Watts> powers = mean_powers(step_.accounted.devices);
      heat_.solve_steady_state(powers);
      std::vector<Celsius> dies = heat_.dies();
      const Kelvins move = largest_move(dies, step_.dies);
      step_.dies = std::move(dies);
      const std::vector<double> ceilings = heat_ceilings(powers, length);
      const Hysteresis hysteresis = look >= looks_both_ways
                                        ? Hysteresis::only_down
                                        : (step_.rounds == 1 ? Hysteresis::none : Hysteresis::some);
      std::vector<char> changed =
          update_clocks(model_, step_.dies, ceilings, hysteresis, step_.clocks);
      const bool any = std::ranges::find(changed, 1) != changed.end();
      if (any) account({}, std::move(changed), length);
      if (move < die_tolerance && !any) return;
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
      // One Newton step in power: heating of a die by its own watts is the largest term, that by
      // its neighbours stays as it is in this look and follows in the next one.
      const Watts allowed = powers[d] + (*held - step_.dies[d]) / heat_.own_resistance(d);
      const double ceiling =
          clock::ceiling_for(0, model_.most_steps_down(), allowed, [&](double steps) {
            return power_under_ceiling(model_, step_.clocks, step_.timeline, step_.accounted,
                                       {d, steps, length, *held});
          });
      // Smaller moves are noise of the root finding; taking them over would mark the device as
      // changed in every look, and the loop would run to its bound.
      if (std::abs(ceiling - ceilings[d]) > ceiling_tolerance || ceiling == 0)
        ceilings[d] = ceiling;
    });
    return ceilings;
  }

  bool heat_holds_some() const {
    return std::ranges::any_of(step_.clocks.heat_ceiling, [](double h) { return h > 0; });
  }

  void update_schedule() {
    std::vector<char> rescheduled = sim::update_schedule(model_, step_.clocks, step_.timeline);
    ++step_.rounds;
    account(std::move(rescheduled), {}, step_.timeline.step_time);
  }

  void account(std::vector<char> pipelines, std::vector<char> devices, Seconds length) {
    pipelines.resize(model_.pipelines.size(), 0);
    devices.resize(step_.dies.size(), 0);
    update_account(model_, step_.clocks, step_.timeline,
                   {.pipelines = std::move(pipelines), .devices = std::move(devices)}, length,
                   step_.accounted);
  }

  /// Powers and temperatures that belong to each other and to the step that was simulated last.
  void rest() {
    constexpr int looks = 2;
    for (int look = 0; look < looks; ++look) {
      set_dies(model_, clamp_dies(step_.dies), step_.accounted.devices);
      heat_.solve_steady_state(mean_powers(step_.accounted.devices));
      step_.dies = heat_.dies();
    }
    set_dies(model_, clamp_dies(step_.dies), step_.accounted.devices);
    set_phase_powers(model_, step_.dies, step_.clocks);
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
  return SteadyStateSolver(model, heat).solve();
}

CoupledStep step_at(StepModel& model, std::vector<Celsius> dies) {
  CoupledStep step;
  step.clocks = choose_clocks(model, dies);
  step.timeline = simulate_step(model, step.clocks);
  step.accounted = account_step(model, step.clocks, step.timeline);
  set_dies(model, dies, step.accounted.devices);
  step.dies = std::move(dies);
  return step;
}

void update_step(StepModel& model, std::vector<Celsius> dies, std::span<const double> heat_ceiling,
                 CoupledStep& step) {
  std::vector<char> changed =
      update_clocks(model, dies, heat_ceiling, Hysteresis::some, step.clocks);
  if (std::ranges::find(changed, 1) != changed.end()) {
    std::vector<char> rescheduled = update_schedule(model, step.clocks, step.timeline);
    ++step.rounds;
    update_account(model, step.clocks, step.timeline,
                   {.pipelines = std::move(rescheduled), .devices = std::move(changed)},
                   step.timeline.step_time, step.accounted);
  }
  set_dies(model, dies, step.accounted.devices);
  step.dies = std::move(dies);
}

std::optional<run::Shutdown> find_shutdown(const spec::Gpu& gpu, std::span<const Celsius> dies) {
  if (!gpu.governor || !gpu.governor->shutdown_temperature) return std::nullopt;
  const auto hottest = std::ranges::max_element(dies);
  if (*hottest < *gpu.governor->shutdown_temperature) return std::nullopt;
  return run::Shutdown{.device = static_cast<int32_t>(hottest - dies.begin()),
                       .die_c = hottest->degrees()};
}

}  // namespace triplepoint::sim
