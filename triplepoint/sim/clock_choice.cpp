// SPDX-License-Identifier: Apache-2.0
// Which clock each device has in each phase of a step.
//
// A phase runs at the highest clock at which its mean power, with the exchange after it, meets the
// power limit. As leakage grows with temperature, that choice holds between two die temperatures,
// which the choice names: a device is looked at again only when its die leaves them. Heat acts on
// top as a ceiling in clock steps that is found elsewhere (steady_state.cpp, clock/governor.h); a
// ceiling between two clocks means that the governor alternates between them.
//
// Cost: a choice is a search over clock steps with a power evaluation each (clock/choose_clock.h),
// for every device and use. The two temperatures make it rare: between them a look at a device
// costs two comparisons per use. They are exact, as power depends on temperature through leakage
// alone, which is an exponential that can be inverted (power::die_at_power).
#include "triplepoint/sim/clock_choice.h"

#include <algorithm>
#include <utility>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
namespace {

// A clock step costs a die 0.2 to 0.5 K in steady state (some 9 W at 0.025 to 0.06 K/W). A governor
// goes up again only where the cap holds with that much on top, or it would swing for ever.
constexpr Kelvins rise_of_a_step = 0.3 * unit::K;

bool keeps_choice(const DevicePhase& phase, Celsius die, Hysteresis hysteresis) {
  // Above it the cap is exceeded: this bound has no hysteresis.
  if (die > phase.hottest) return false;
  if (hysteresis == Hysteresis::only_down) return true;
  if (hysteresis == Hysteresis::some) return die > phase.coldest - rise_of_a_step;
  return die > phase.coldest;
}

/// Mean power of a phase and the exchange after it.
Watts power_of(const StepModel& model, const DevicePhase& phase, PhaseTable& table,
               const PhaseConditions& at) {
  Seconds duration;
  Joules energy;
  // Energies over times: a mean of the two powers by share would count the shorter repetitions at
  // the higher clock too much.
  for (const auto& [index, share] : clocks_of(phase)) {
    spec::GpuLoad load = table.at(index, at.host_factor).load;
    load += at.exchange;
    duration += share * load.duration;
    energy +=
        share * load.duration *
        power::gpu_power(model.power(), load, model.clocks().applied[static_cast<size_t>(index)],
                         at.die, at.board);
  }
  return energy / duration;
}

/// What is left of a choice under a ceiling that heat sets: where it lies between two clocks, a
/// mean over both.
DevicePhase hold_under(const StepModel& model, double heat_ceiling, DevicePhase phase,
                       PhaseTable& table, const PhaseConditions& at) {
  const double steps =
      std::clamp(heat_ceiling, static_cast<double>(phase.capped_index), model.most_steps_down());
  if (steps == phase.steps_down()) return phase;
  phase.clock_index = static_cast<int64_t>(steps);
  phase.share_below = steps - static_cast<double>(phase.clock_index);
  phase.reason = clock::ClockEventReason::none;
  // In rising order of what binds: the last condition that holds names the reason.
  if (at.locked_steps > 0) phase.reason = clock::ClockEventReason::application_clocks;
  if (phase.capped_index > at.locked_steps)
    phase.reason = clock::ClockEventReason::software_power_cap;
  if (steps > static_cast<double>(phase.capped_index))
    phase.reason = clock::heat_reason(*model.job.cluster.gpu.governor, at.die);
  phase.duration = Seconds();
  for (const auto& [index, share] : clocks_of(phase))
    phase.duration += share * table.at(index, at.host_factor).duration;
  phase.power = power_of(model, phase, table, at);
  return phase;
}

PhaseConditions conditions_of(const StepModel& model, size_t device, Celsius die) {
  const Conditions& now = model.conditions();
  PhaseConditions at{.exchange = {},
                     .host_factor = model.group_of(device).host_factor,
                     .die = die,
                     .limit = now.power_limit[device]};
  at.clocks = &model.clocks();
  at.board = model.hardware.boards[device];
  at.locked_steps = now.locked_steps[device];
  return at;
}

/// Phases of a device that has one clock.
std::vector<DevicePhase> phases_at_one_clock(StepModel& model, const LockstepGroup& group) {
  std::vector<DevicePhase> phases;
  for (const PhaseUse& use : model.uses[static_cast<size_t>(group.stage)]) {
    DevicePhase& phase = phases.emplace_back();
    phase.duration = model.table(group, use).at(0, group.host_factor).duration;
  }
  return phases;
}

}  // namespace

std::vector<DevicePhase> choose_phases(StepModel& model, const DeviceConditions& of,
                                       const std::vector<DevicePhase>* before) {
  const auto [pipeline, stage] = model.place_of(of.device);
  const LockstepGroup& group = model.group_of(of.device);
  PhaseConditions at = conditions_of(model, of.device, of.die);
  std::vector<DevicePhase> phases;
  phases.reserve(model.uses[stage].size());
  for (size_t u = 0; u < model.uses[stage].size(); ++u) {
    const PhaseUse& use = model.uses[stage][u];
    PhaseTable& table = model.table(group, use);
    at.exchange = model.exchange_after(pipeline, stage, use.kind);
    if (before) at.guess = (*before)[u].capped_index;
    // What is kept is the choice under power (capped_index and its temperatures); the ceiling is
    // applied anew in any case.
    const bool keep = before && keeps_choice((*before)[u], of.die, of.hysteresis);
    const DevicePhase capped = keep ? (*before)[u] : choose_device_phase(model.job, table, at);
    phases.push_back(hold_under(model, of.heat_ceiling, capped, table, at));
  }
  return phases;
}

ClockState choose_clocks(StepModel& model, std::span<const Celsius> die) {
  ClockState state;
  state.devices.resize(model.num_devices());
  state.heat_ceiling.assign(model.num_devices(), 0);
  parallel_for(model.pipelines.size(), model.threads(), [&](size_t p) {
    for (const LockstepGroup& group : model.pipelines[p].groups)
      for (const int64_t device : group.devices) {
        const auto d = static_cast<size_t>(device);
        state.devices[d] = model.has_power()
                               ? choose_phases(model, {.device = d, .die = die[d]}, nullptr)
                               : phases_at_one_clock(model, group);
      }
  });
  return state;
}

void set_phase_powers(StepModel& model, std::span<const Celsius> die, ClockState& state) {
  if (!model.has_power()) return;
  for (size_t d = 0; d < model.num_devices(); ++d) {
    const auto [pipeline, stage] = model.place_of(d);
    PhaseConditions at = conditions_of(model, d, die[d]);
    for (size_t u = 0; u < model.uses[stage].size(); ++u) {
      const PhaseUse& use = model.uses[stage][u];
      at.exchange = model.exchange_after(pipeline, stage, use.kind);
      DevicePhase& phase = state.devices[d][u];
      phase.power = power_of(model, phase, model.table(model.group_of(d), use), at);
    }
  }
}

std::vector<char> update_clocks(StepModel& model, std::span<const Celsius> die,
                                std::span<const double> heat_ceiling, Hysteresis hysteresis,
                                ClockState& state) {
  std::vector<char> changed(model.num_devices(), 0);
  if (!model.has_power()) return changed;
  std::vector<size_t> moved;
  for (size_t d = 0; d < model.num_devices(); ++d)
    if (heat_ceiling[d] != state.heat_ceiling[d] ||
        !std::ranges::all_of(state.devices[d], [&](const DevicePhase& phase) {
          return keeps_choice(phase, die[d], hysteresis);
        }))
      moved.push_back(d);
  parallel_for(moved.size(), model.threads_for(moved.size()), [&](size_t i) {
    const size_t d = moved[i];
    std::vector<DevicePhase> phases =
        choose_phases(model, {d, die[d], heat_ceiling[d], hysteresis}, &state.devices[d]);
    if (heat_ceiling[d] != state.heat_ceiling[d]) changed[d] = 1;
    for (size_t u = 0; u < phases.size(); ++u)
      // A new choice may end at the same clocks, with other temperature bounds; then no schedule
      // has to be simulated again.
      if (!phases[u].same_clock(state.devices[d][u])) changed[d] = 1;
    state.devices[d] = std::move(phases);
    state.heat_ceiling[d] = heat_ceiling[d];
  });
  return changed;
}

}  // namespace triplepoint::sim
