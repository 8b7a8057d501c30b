// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/gpu_power.h"
#include "triplepoint/sim/boundaries.h"
#include "triplepoint/sim/conditions.h"
#include "triplepoint/sim/machine.h"
#include "triplepoint/sim/phase_table.h"
#include "triplepoint/sim/play.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// One kind of phase in a stage's program, and how often it is played per step.
struct PhaseUse {
  size_t table = 0;  // of StepModel::table
  size_t work = 0;   // index into WorkGraph::works
  workload::ActionKind kind = workload::ActionKind::forward;
  int64_t count = 0;
};

/// What the governor chose for one device in one phase.
struct DevicePhase {
  int64_t clock_index = 0;
  clock::ClockEventReason reason = clock::ClockEventReason::none;
  Seconds duration;  // alone, without waiting for the team
  Watts power;
};

/// The clocks of a governor by index, worked out once where many devices share them: as it is asked
/// for them, and as phases are played at them (the same but for rounding).
struct ClockScale {
  std::vector<power::ClockPoint> asked, played;
};

/// Clocks of all devices; equal choices give an equal step.
struct ClockState {
  std::vector<std::vector<DevicePhase>> devices;  // [device][phase use of its stage]
  bool same_clocks(const ClockState& other) const;
};

/// The end of a step on one stage, as spans of time.
struct StepEnd {
  Seconds finish;      // last action, sends included
  Seconds sync_begin;  // the data-parallel group is complete
  Seconds sync_end;
  Seconds norm_begin;  // the model group is complete
  Seconds norm_end, optimizer_end, end;
};

/// One step played at given clocks.
struct PlayedStep {
  std::vector<std::vector<PlayedStage>> pipelines;  // [pipeline][stage]
  std::vector<std::vector<StepEnd>> ends;
  std::vector<std::vector<std::vector<Seconds>>>
      phase_durations;  // [pipeline][stage][phase use]: of the team
  Seconds step_time;
};

/// Energy and clock of one device over one step.
struct DeviceStep {
  power::EnergyLedger ledger;
  Seconds throttled_power, throttled_thermal;  // time below the requested clock, by reason
  double mean_clock_ratio = 1;
  Watts mean_power, sensor_peak, instant_peak;
  Bytes scale_up_bytes, scale_out_bytes;
};

/// Ops of a step's end, priced.
struct PricedEnd {
  std::vector<PricedOp> gradient_sync, gradient_norm, optimizer, parameter_sync;
  bool waits_for_replicas = false;  // some gradient op spans the pipelines
};

/// What the ranks of a team do between their phases; all of them alike.
struct TeamExchanges {
  size_t pipeline;
  const Team& team;
  std::vector<spec::GpuLoad> between;  // [phase use]
};

struct TeamOnCores;

/// Everything about a job that does not change while it runs, and the step as a function of
/// temperatures.
class StepModel {
 public:
  /// Under the conditions that last (sim/conditions.h), until others are set.
  StepModel(const spec::Job& job, const workload::WorkGraph& graph);

  /// Whether the same clocks give another step than before: links or hosts have changed.
  bool set_conditions(const Conditions&);
  const Conditions& conditions() const { return conditions_; }

  /// `before`: where to look first, usually the last choice. Any gives the same answer.
  ClockState choose_clocks(std::span<const Celsius> die, const ClockState* before = nullptr);
  PlayedStep play_step(const ClockState&);
  /// From a step played before under the same conditions: only pipelines with other durations, and
  /// those that meet them on links, are played again. The same bits.
  void play_again(const ClockState&, PlayedStep& step);
  std::vector<DeviceStep> account(const ClockState&, const PlayedStep&,
                                  std::span<const Celsius> die);
  void add_peaks(std::vector<DeviceStep>&, std::span<const Celsius> die);

  const spec::Job& job;
  const workload::WorkGraph& graph;
  Machine machine;
  std::vector<Pipeline> pipelines;
  std::vector<std::vector<PhaseUse>> uses;  // [stage]
  PricedBoundaries sends;

  /// Of this team's links.
  PhaseTable& table(const Team& team, const PhaseUse& use) {
    return tables_[team.links * num_tables_ + use.table];
  }
  /// Of a stage, whose replicas all wait for the slowest links among them.
  const PricedEnd& end_of(size_t stage) const {
    return ends_[end_links_[stage] * graph.step_works.size() +
                 static_cast<size_t>(graph.step_work[stage])];
  }

  double clock_ratio(int64_t index) const { return 1 - static_cast<double>(index) * step_ratio_; }
  size_t use_of(size_t stage, const workload::Action&) const;
  const spec::PowerCoefficients& power() const { return *job.cluster.gpu.power; }

 private:
  /// Shares of its links' bandwidth that a team or a stage has.
  struct LinkShares {
    double scale_up = 1, scale_out = 1;
    friend bool operator==(const LinkShares&, const LinkShares&) = default;
  };

  void find_uses();
  void choose_clocks_of(const Pipeline&, size_t index, std::span<const Celsius> die,
                        const ClockState* before, ClockState& state);
  void account_pipeline(size_t pipeline, const ClockState&, const PlayedStep&,
                        std::span<const Celsius> die, std::vector<DeviceStep>& devices);
  size_t links_of(const LinkShares&);
  LinkShares shares_of(const Team&) const;
  void set_hosts_and_links();
  std::vector<std::array<Seconds, action_kind_count>> by_chunk(
      size_t stage, const std::vector<Seconds>& of_uses) const;
  std::vector<std::vector<TeamOnCores>> teams_on_cores();
  std::vector<StageTimes> stage_times(const std::vector<std::vector<Seconds>>& durations) const;
  void finish_step(PlayedStep&) const;
  spec::GpuLoad exchange_after(size_t pipeline, size_t stage, workload::ActionKind) const;
  std::vector<spec::GpuLoad> exchanges(const PlayedStage&, size_t pipeline, size_t stage) const;
  DeviceStep account_device(const ClockState&, const PlayedStep&, const TeamExchanges&,
                            size_t device, Celsius die);

  int threads_ = 1;  // over pipelines; never in a result
  ClockScale scale_;
  Conditions conditions_;
  std::optional<Wiring> wiring_;
  // Priced once per distinct shares: num_tables_ tables and an end per distinct step work each.
  std::vector<LinkShares> known_shares_;
  std::vector<std::pair<size_t, workload::ActionKind>> table_works_;  // work of each table
  std::vector<PhaseTable> tables_;
  std::vector<PricedEnd> ends_;
  std::vector<size_t> end_links_;  // [stage] -> known_shares_
  size_t num_tables_ = 0;
  double step_ratio_ = 0;
  int64_t clock_steps_ = 0;
};

}  // namespace triplepoint::sim
