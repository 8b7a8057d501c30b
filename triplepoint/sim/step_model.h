// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/gpu_power.h"
#include "triplepoint/sim/boundaries.h"
#include "triplepoint/sim/conditions.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/phase_table.h"
#include "triplepoint/sim/simulate_schedule.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// One kind of phase in a stage's program, and how often it runs per step.
struct PhaseUse {
  size_t table = 0;  // of StepModel::table
  size_t work = 0;   // index into WorkGraph::works
  workload::ActionKind kind = workload::ActionKind::forward;
  int64_t count = 0;
};

/// What the governor chose for one device in one phase.
///
/// Heat may hold a clock between two steps: then the governor goes to and fro between them, and
/// `share_below` of the phases run one step below `clock_index`.
struct DevicePhase {
  int64_t clock_index = 0;
  double share_below = 0;
  clock::ClockEventReason reason = clock::ClockEventReason::none;
  Seconds duration;  // alone, without waiting for the lockstep group; the mean over both clocks
  Watts power;

  /// What power alone allows, and the die temperatures between which it is that.
  int64_t capped_index = 0;
  Celsius coldest{-std::numeric_limits<double>::infinity()};
  Celsius hottest{std::numeric_limits<double>::infinity()};

  double steps_down() const { return static_cast<double>(clock_index) + share_below; }
  bool same_clock(const DevicePhase& other) const {
    return clock_index == other.clock_index && share_below == other.share_below;
  }
};

/// The clocks of a governor by index, worked out once where many devices share them: as it is asked
/// for them, and as phases run at them (the same but for rounding).
struct ClockScale {
  std::vector<power::ClockPoint> asked, applied;
};

/// The clocks of a phase and which share of its repetitions each has; the second may have none.
inline std::array<std::pair<int64_t, double>, 2> clocks_of(const DevicePhase& phase) {
  const int64_t below = phase.share_below > 0 ? 1 : 0;
  return {
      {{phase.clock_index, 1 - phase.share_below}, {phase.clock_index + below, phase.share_below}}};
}

/// Clocks of all devices; equal choices give an equal step.
struct ClockState {
  std::vector<std::vector<DevicePhase>> devices;  // [device][phase use of its stage]
  std::vector<double> heat_ceiling;  // [device]: clock steps below the maximum; 0: heat allows all
};

/// The end of a step on one stage, as spans of time.
struct StepEpilogue {
  Seconds finish;      // last action, sends included
  Seconds sync_begin;  // the data-parallel group is complete
  Seconds sync_end;
  Seconds norm_begin;  // the model group is complete
  Seconds norm_end, optimizer_end, end;
};

/// One step simulated at given clocks.
struct StepTimeline {
  std::vector<std::vector<StageTimeline>> pipelines;  // [pipeline][stage]
  std::vector<std::vector<StepEpilogue>> epilogues;
  std::vector<std::vector<std::vector<Seconds>>>
      phase_durations;  // [pipeline][stage][phase use]: of the lockstep group
  Seconds step_time;
};

/// Energy and clock of one device over one step. Of all this only leakage depends on the die's
/// temperature, so a step whose clocks stay is accounted for at another one in no time.
struct DeviceStep {
  power::EnergyLedger ledger;
  Seconds throttled_power, throttled_thermal;  // time below the requested clock, by reason
  double mean_clock_ratio = 1;
  Watts mean_power, sensor_peak, instant_peak;
  Bytes scale_up_bytes, scale_out_bytes;

  /// Of a die at the reference temperature: of the phases and what lies between them, and of all.
  power::EnergyLedger phases_at_reference, at_reference;
  Seconds in_phases, duration;
  double clock_seconds = 0;  // clock ratio times time in phases
};

/// Ops of a step's end with their times.
struct EpilogueEstimate {
  std::vector<OpEstimate> gradient_sync, gradient_norm, optimizer, parameter_sync;
  bool waits_for_replicas = false;  // some gradient op spans the pipelines
};

/// What the members of a lockstep group have in common over a step that was simulated.
struct GroupStep {
  std::vector<spec::GpuLoad>
      between;            // [phase use]: gaps and sends that follow it, of all the step
  spec::GpuLoad outside;  // waiting for data and the step's end; no duration
  Seconds in_phases;      // phases at the lockstep group's pace, and what lies between
  Seconds step_time;
};

/// A step's energy: of every device, and what it rests on of every lockstep group.
struct AccountedStep {
  std::vector<DeviceStep> devices;
  std::vector<std::vector<GroupStep>> groups;  // [pipeline][stage]
};

/// What is another since a step was accounted for, each 0 or 1.
struct Changed {
  std::vector<char> pipelines;  // simulated again
  std::vector<char> devices;    // at other clocks
};

/// Whether a device's phases take as long as its lockstep group's, or as they would alone.
enum class Lockstep { of_group, alone };

struct PhaseConditions;
struct GroupOnCores;

/// When a governor that has gone down a clock step goes up again: as soon as power allows it; where
/// it would still allow it with the die a little warmer, which the higher clock will make it;
/// never.
enum class Hysteresis { none, some, only_down };

/// Everything about a job that does not change while it runs, and the step as a function of
/// temperatures.
class StepModel {
 public:
  /// Under the conditions that last (sim/conditions.h), until others are set.
  StepModel(const spec::Job& job, const workload::WorkGraph& graph);

  /// Whether the same clocks give another step than before: links or hosts have changed.
  bool set_conditions(const Conditions&);
  const Conditions& conditions() const { return conditions_; }

  /// What power alone allows.
  ClockState choose_clocks(std::span<const Celsius> die);
  /// Chooses again for the devices whose die has left the temperatures of their choice, or whose
  /// heat ceiling is another. By device, whether its clocks have changed.
  std::vector<char> update_clocks(std::span<const Celsius> die,
                                  std::span<const double> heat_ceiling, Hysteresis hysteresis,
                                  ClockState& state);

  /// The mean powers of the phases at other temperatures than those they were chosen at.
  void set_phase_powers(std::span<const Celsius> die, ClockState& state);

  StepTimeline simulate_step(const ClockState&);
  /// From a step simulated before under the same conditions: only pipelines with other durations,
  /// and those that meet them on links, are simulated again. The same bits. By pipeline, whether it
  /// was simulated.
  std::vector<char> update_schedule(const ClockState&, StepTimeline& step);

  /// At the reference temperature; set_dies() follows.
  AccountedStep account(const ClockState&, const StepTimeline&);
  /// In a step of this length: the simulated one's, or one in which everybody waits longer or less.
  void account_again(const ClockState&, const StepTimeline&, const Changed&, Seconds step_time,
                     AccountedStep&);
  /// The same clocks at other temperatures.
  void set_dies(std::span<const Celsius> die, std::vector<DeviceStep>& devices) const;
  /// Mean power of a device that heat holds so many steps below the maximum, where the others need
  /// so long for a step: it waits for them, or they for it.
  struct Ceiling {
    double heat_ceiling = 0;
    Seconds length;
    Celsius die;
  };
  Watts power_under_ceiling(const ClockState&, const StepTimeline&, const AccountedStep&,
                            size_t device, const Ceiling&);
  void add_peaks(std::vector<DeviceStep>&, std::span<const Celsius> die);

  const spec::Job& job;
  const workload::WorkGraph& graph;
  HardwareVariation hardware;
  std::vector<Pipeline> pipelines;
  std::vector<std::vector<PhaseUse>> uses;  // [stage]
  BoundaryEstimates sends;

  /// Of this lockstep group's links.
  PhaseTable& table(const LockstepGroup& group, const PhaseUse& use) {
    return tables_[group.links * num_tables_ + use.table];
  }
  /// Of a stage, whose replicas all wait for the slowest links among them.
  const EpilogueEstimate& epilogue_of(size_t stage) const {
    return epilogues_[epilogue_links_[stage] * graph.step_works.size() +
                      static_cast<size_t>(graph.step_work[stage])];
  }

  /// Of so many clock steps below the maximum.
  double clock_ratio(double steps) const { return 1 - steps * step_ratio_; }
  double most_steps_down() const { return static_cast<double>(clock_steps_); }
  struct Place {
    size_t pipeline = 0, stage = 0;
  };
  /// Threads for so many pieces of work; never in a result.
  int threads_for(size_t pieces) const;
  const Place& place_of(size_t device) const { return places_[device]; }
  size_t use_of(size_t stage, const workload::Action&) const;
  /// Ranks on the cores of one machine have no power, heat and clocks: their devices run at one
  /// clock, and a step has times and traffic only.
  bool has_power() const { return job.cluster.gpu.power.has_value(); }
  const spec::PowerCoefficients& power() const { return *job.cluster.gpu.power; }

 private:
  /// Shares of its links' bandwidth that a lockstep group or a stage has.
  struct LinkShares {
    double scale_up = 1, scale_out = 1;
    friend bool operator==(const LinkShares&, const LinkShares&) = default;
  };

  void find_uses();
  void find_places();
  std::vector<DevicePhase> choose_phases(size_t device, Celsius die, double heat_ceiling,
                                         Hysteresis, const std::vector<DevicePhase>* before);
  std::vector<DevicePhase> phases_at_one_clock(const LockstepGroup&);
  DevicePhase hold_under(double heat_ceiling, DevicePhase, PhaseTable&,
                         const PhaseConditions&) const;
  Watts power_of(const DevicePhase&, PhaseTable&, const PhaseConditions&) const;
  PhaseConditions conditions_of(size_t device, Celsius die) const;
  void update_group(const StepTimeline&, size_t pipeline, size_t stage, bool rescheduled,
                    GroupStep& group) const;
  void account_phases(const std::vector<DevicePhase>&, const StepTimeline&, const GroupStep&,
                      size_t device, Lockstep, DeviceStep& sum);
  void account_rest(const GroupStep&, size_t device, double heat_ceiling, Seconds step_time,
                    DeviceStep& sum) const;
  size_t links_of(const LinkShares&);
  LinkShares shares_of(const LockstepGroup&) const;
  void set_hosts_and_links();
  std::vector<std::array<Seconds, action_kind_count>> by_chunk(
      size_t stage, const std::vector<Seconds>& of_uses) const;
  std::vector<std::vector<GroupOnCores>> groups_on_cores();
  std::vector<StageTimes> stage_times(const std::vector<std::vector<Seconds>>& durations) const;
  void finish_step(StepTimeline&) const;
  spec::GpuLoad exchange_after(size_t pipeline, size_t stage, workload::ActionKind) const;
  std::vector<spec::GpuLoad> exchanges(const StageTimeline&, size_t pipeline, size_t stage) const;
  spec::GpuLoad load_outside_phases(const StepTimeline&, size_t pipeline, size_t stage) const;

  int threads_ = 1;            // over pipelines; never in a result
  std::vector<Place> places_;  // [device]
  ClockScale scale_;  // empty without power
  Conditions conditions_;
  std::optional<Wiring> wiring_;
  // Estimated once per distinct shares: num_tables_ tables and an end per distinct step work each.
  std::vector<LinkShares> known_shares_;
  std::vector<std::pair<size_t, workload::ActionKind>> table_works_;  // work of each table
  std::vector<PhaseTable> tables_;
  std::vector<EpilogueEstimate> epilogues_;
  std::vector<size_t> epilogue_links_;  // [stage] -> known_shares_
  size_t num_tables_ = 0;
  double step_ratio_ = 1;    // a clock step over the highest clock; without power there is one clock
  int64_t clock_steps_ = 0;  // below the highest clock
};

}  // namespace triplepoint::sim
