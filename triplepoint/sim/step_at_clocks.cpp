// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_at_clocks.h"

// When everything of a step happens at given clocks.
//
// A lockstep group takes as long for a phase as its slowest member; the programs of all stages then
// run by simulate_schedule(), and the step's epilogue follows: gradients are reduced once the
// replicas of a stage are through, the norm needs every stage, the optimizer and the gather of
// parameters follow per stage. The step ends when the last stage does.
//
// The epilogue is in closed form, because it has three meeting points only: replicas of a stage
// (sync_begin), all stages (norm_begin), and the end. Times at the end of a step are at full clock;
// it is short beside the microbatches, and memory and links bound it, so the clock hardly enters.

#include <algorithm>
#include <limits>
#include <utility>

#include "triplepoint/base/parallel.h"

namespace triplepoint::sim {
namespace {

/// The slowest member's time for each phase.
std::vector<Seconds> group_durations(const LockstepGroup& group, const ClockState& clocks,
                                     size_t num_uses) {
  std::vector<Seconds> durations(num_uses);
  for (const int64_t device : group.devices)
    for (size_t u = 0; u < num_uses; ++u)
      durations[u] = std::max(durations[u], clocks.devices[as_size(device)][u].duration);
  return durations;
}

/// From the phases a stage uses to its chunks' actions.
std::vector<std::array<Seconds, action_kind_count>> by_chunk(const StepModel& model, size_t s,
                                                             const std::vector<Seconds>& of_uses) {
  std::vector<std::array<Seconds, action_kind_count>> times(as_size(model.graph.virtual_stages));
  for (size_t chunk = 0; chunk < times.size(); ++chunk)
    for (size_t u = 0; u < model.uses[s].size(); ++u)
      if (model.work_of(s, static_cast<int32_t>(chunk)) == model.uses[s][u].work)
        times[chunk][as_size(model.uses[s][u].kind)] = of_uses[u];
  return times;
}

/// What the schedule needs of one pipeline, from its lockstep groups' phases.
std::vector<StageTimes> stage_times(const StepModel& model,
                                    const std::vector<std::vector<Seconds>>& durations) {
  std::vector<StageTimes> times(durations.size());
  for (size_t s = 0; s < times.size(); ++s)
    times[s] = {.program = &model.graph.programs[s], .durations = by_chunk(model, s, durations[s])};
  return times;
}

/// Time of the last backward pass of a stage.
Seconds last_pass(const StepModel& model, const StepTimeline& step, size_t pipeline, size_t s) {
  const workload::Action& last = step.pipelines[pipeline][s].actions.back().action;
  return step.phase_durations[pipeline][s][model.use_of(s, last)];
}

/// What the reduction of a stage's gradients can hide behind: buckets are reduced during the last
/// backward pass, each once all replicas have it. So from the last replica that begins the pass to
/// the last one that ends it.
Seconds cover_of_replicas(const StepModel& model, const StepTimeline& step, size_t s,
                          Seconds replicas_ready) {
  // Buckets are not simulated one by one: all of the pass counts, which is slightly too much, as
  // the first bucket is complete only some layers into it.
  Seconds cover = std::numeric_limits<double>::infinity() * unit::s;
  for (size_t p = 0; p < step.pipelines.size(); ++p) {
    const Seconds waits = replicas_ready - step.pipelines[p][s].finish;
    cover = std::min(cover, last_pass(model, step, p, s) + waits);
  }
  return cover;
}

/// Gradient reduction over the replicas, the norm over the whole model, optimizer, parameter
/// gather.
void finish_step(const StepModel& model, StepTimeline& step) {
  const size_t stages = as_size(model.graph.stages);
  step.epilogues.assign(step.pipelines.size(), std::vector<StepEpilogue>(stages));
  step.step_time = Seconds();
  Seconds norm_ready;
  for (size_t s = 0; s < stages; ++s) {
    const EpilogueEstimate& end = model.epilogue_of(s);
    Seconds replicas_ready =
        most_of(step.pipelines, [&](const auto& timeline) { return timeline[s].finish; });
    const Seconds shared_cover = cover_of_replicas(model, step, s, replicas_ready);
    for (size_t p = 0; p < step.pipelines.size(); ++p) {
      StepEpilogue& at = step.epilogues[p][s];
      at.finish = step.pipelines[p][s].finish;
      at.sync_begin = end.waits_for_replicas ? replicas_ready : at.finish;
      const Seconds cover = end.waits_for_replicas ? shared_cover : last_pass(model, step, p, s);
      at.sync_end = at.sync_begin + exposed_time(end.gradient_sync, cover);
      norm_ready = std::max(norm_ready, at.sync_end);
    }
  }
  for (size_t p = 0; p < step.pipelines.size(); ++p)
    for (size_t s = 0; s < stages; ++s) {
      const EpilogueEstimate& end = model.epilogue_of(s);
      StepEpilogue& at = step.epilogues[p][s];
      at.norm_begin = norm_ready;
      at.norm_end = norm_ready + exposed_time(end.gradient_norm, Seconds());
      at.optimizer_end = at.norm_end + total_time(end.optimizer);
      // The gather of parameters overlaps with the next step's first forward pass. Every program
      // begins with a forward, so the first use of a stage is one (find_uses), and its time stands
      // for that pass.
      const Seconds forward = step.phase_durations[p][s].front();
      at.end = at.optimizer_end + exposed_time(end.parameter_sync, forward);
      step.step_time = std::max(step.step_time, at.end);
    }
  if (!(step.step_time <= longest_step)) throw StepTooLong(step.step_time);
}

}  // namespace

StepTimeline simulate_step(StepModel& model, const ClockState& clocks) {
  StepTimeline step;
  update_schedule(model, clocks, step);
  return step;
}

std::vector<char> update_schedule(StepModel& model, const ClockState& clocks, StepTimeline& step) {
  const std::vector<Pipeline>& pipelines = model.pipelines;
  std::vector<char> changed(pipelines.size(), 0);
  step.phase_durations.resize(pipelines.size());
  for (size_t p = 0; p < pipelines.size(); ++p) {
    std::vector<std::vector<Seconds>> durations;
    for (size_t s = 0; s < pipelines[p].groups.size(); ++s)
      durations.push_back(group_durations(pipelines[p].groups[s], clocks, model.uses[s].size()));
    changed[p] = durations != step.phase_durations[p] ? 1 : 0;
    step.phase_durations[p] = std::move(durations);
  }
  // Pipelines that meet on links have to be simulated together: one that changed changes the rates
  // of the others.
  for (const Wiring::Cluster& cluster : model.wiring().clusters()) {
    const bool any =
        std::ranges::any_of(cluster.pipelines, [&](size_t p) { return changed[p] != 0; });
    for (const size_t p : cluster.pipelines)
      changed[p] = any ? 1 : 0;
  }
  std::vector<std::vector<StageTimes>> times(pipelines.size());
  for (size_t p = 0; p < pipelines.size(); ++p)
    // Unchanged pipelines keep empty times; update_schedule() does not read them.
    if (changed[p]) times[p] = stage_times(model, step.phase_durations[p]);
  const ScheduleRules rules{.gap = model.job.stack.microbatch_gap,
                            .start = model.job.stack.step_overhead};
  sim::update_schedule({.pipelines = times, .changed = changed, .threads = model.threads()},
                       model.wiring(), rules, step.pipelines);
  finish_step(model, step);
  return changed;
}

// Which clock each device has in each phase of a step.
//
// A phase runs at the highest clock at which its mean power, with the exchange after it, meets the
// power limit. As leakage grows with temperature, that choice holds between two die temperatures,
// which the choice names: a device is looked at again only when its die leaves them. Heat acts on
// top as a ceiling in clock steps that is found elsewhere (steady_state.cpp, clock/governor.h); a
// ceiling between two clocks means that the governor alternates between them.
//
// Cost: a choice is a search over clock steps with a power evaluation each (clock/governor.h),
// for every device and use. The two temperatures make it rare: between them a look at a device
// costs two comparisons per use. They are exact, as power depends on temperature through leakage
// alone, which is an exponential that can be inverted (power::die_at_power).

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
        power::gpu_power(model.power(), load, model.clocks()[as_size(index)], at.die, at.board);
  }
  return energy / duration;
}

/// What is left of a choice under a ceiling that heat sets: where it lies between two clocks, a
/// mean over both.
DevicePhase hold_under(const StepModel& model, double heat_ceiling, DevicePhase phase,
                       PhaseTable& table, const PhaseConditions& at) {
  const double steps =
      std::clamp(heat_ceiling, as_real(phase.capped_index), model.most_steps_down());
  if (steps == phase.steps_down()) return phase;
  phase.clock_index = static_cast<int64_t>(steps);
  phase.share_below = steps - as_real(phase.clock_index);
  phase.reason = clock::ClockEventReason::none;
  // In rising order of what binds: the last condition that holds names the reason.
  if (at.locked_steps > 0) phase.reason = clock::ClockEventReason::application_clocks;
  if (phase.capped_index > at.locked_steps)
    phase.reason = clock::ClockEventReason::software_power_cap;
  if (steps > as_real(phase.capped_index))
    phase.reason = clock::heat_reason(*model.job.cluster.gpu.governor, at.die);
  phase.duration = Seconds();
  for (const auto& [index, share] : clocks_of(phase))
    phase.duration += share * table.at(index, at.host_factor).duration;
  phase.power = power_of(model, phase, table, at);
  return phase;
}

PhaseConditions conditions_of(const StepModel& model, size_t device, Celsius die) {
  const Conditions& now = model.conditions();
  PhaseConditions at{.host_factor = model.group_of(device).host_factor,
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
  for (const PhaseUse& use : model.uses[as_size(group.stage)]) {
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
        const auto d = as_size(device);
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
