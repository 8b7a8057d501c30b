// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/sim/boundaries.h"
#include "triplepoint/sim/conditions.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/phase_table.h"
#include "triplepoint/sim/wiring.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// Ops of a step's end with their times.
struct EpilogueEstimate {
  std::vector<OpEstimate> gradient_sync, gradient_norm, optimizer, parameter_sync;
  bool waits_for_replicas = false;  // some gradient op spans the pipelines
};

/// The end of a step on one stage, as spans of time.
struct StepEpilogue {
  Seconds finish;      // last action, sends included
  Seconds sync_begin;  // the data-parallel group is complete
  Seconds sync_end;
  Seconds norm_begin;  // the model group is complete
  Seconds norm_end, optimizer_end, end;
};

/// Estimates of what a stage does once a step.
EpilogueEstimate estimate_epilogue(const spec::Job&, const workload::WorkGraph&,
                                   const workload::StepWork&);

/// What shows of ops of which some hide behind `cover`:
///   sum of those that do not hide + max(0, sum of those that do - cover)
Seconds exposed_time(const std::vector<OpEstimate>&, Seconds cover);
Seconds total_time(const std::vector<OpEstimate>&);

/// One kind of phase in a stage's program, and how often it runs per step.
struct PhaseUse {
  size_t table = 0;  // of StepModel::table
  size_t work = 0;   // index into WorkGraph::works
  workload::ActionKind kind = workload::ActionKind::forward;
  int64_t count = 0;
};

/// A job with all that does not change while it runs: its work, its boards, who moves in lockstep,
/// and what each phase takes at each clock.
///
/// A step is a function of die temperatures, in three parts: step_at_clocks.h (the clock of
/// every device in every phase, and when everything happens) and
/// energy_account.h (what it draws). steady_state.h and transient.h close the loop over heat.
///
/// A phase is one kind of action on one kind of chunk. Stages with equal chunks share its table;
/// tables and epilogues exist once for each share of link bandwidth that some group has, which
/// faults set. Power, thermal path and governor are optional: ranks on the cores of one machine
/// have none, run at one clock, and a step has times and traffic only.
///
/// Stays where it is: its parts point at each other.
class StepModel {
 public:
  /// Under the conditions that last (sim/conditions.h), until others are set.
  StepModel(const spec::Job& the_job, workload::WorkGraph the_graph);
  explicit StepModel(const spec::Job& the_job)
      : StepModel(the_job, workload::build_work_graph(the_job)) {}
  ~StepModel() = default;
  StepModel(const StepModel&) = delete;
  StepModel& operator=(const StepModel&) = delete;

  /// Whether the same clocks give another step than before: links or hosts have changed.
  bool set_conditions(const Conditions&);
  const Conditions& conditions() const { return conditions_; }

  const spec::Job job;
  const workload::WorkGraph graph;
  HardwareVariation hardware;
  std::vector<Pipeline> pipelines;
  std::vector<std::vector<PhaseUse>> uses;  // [stage]
  BoundaryEstimates sends;

  /// Of this lockstep group's links.
  PhaseTable& table(const LockstepGroup& group, const PhaseUse& use) {
    return tables_[table_index(group, use)];
  }
  size_t table_index(const LockstepGroup& group, const PhaseUse& use) const {
    return group.links * phases_.size() + use.table;
  }
  std::vector<PhaseTable>& tables() { return tables_; }
  /// Of a stage, whose replicas all wait for the slowest links among them.
  const EpilogueEstimate& epilogue_of(size_t stage) const {
    return epilogues_[epilogue_links_[stage] * graph.step_works.size() +
                      as_size(graph.step_work[stage])];
  }
  const Wiring& wiring() const { return *wiring_; }
  /// Index into WorkGraph::works.
  size_t work_of(size_t stage, int32_t chunk) const {
    return as_size(graph.chunk_work[stage][as_size(chunk)]);
  }
  size_t use_of(size_t stage, const workload::Action&) const;
  /// What lies between a phase and the next, as far as it is known before the step is simulated:
  /// the host's gap and the boundary tensor at the rate it has alone.
  spec::GpuLoad exchange_after(size_t pipeline, size_t stage, workload::ActionKind) const;

  bool has_power() const { return job.cluster.gpu.power.has_value(); }
  const spec::PowerCoefficients& power() const { return *job.cluster.gpu.power; }
  const std::vector<power::ClockPoint>& clocks() const { return clocks_; }
  /// A clock over the highest one, by the number of clock steps below it.
  double clock_ratio(double steps) const { return 1 - steps * step_ratio_; }
  /// The clock between phases: the highest that an operator's lock and heat allow.
  double resting_clock_ratio(size_t device, double heat_ceiling) const {
    const auto locked = as_real(conditions_.locked_steps[device]);
    return clock_ratio(std::max(locked, heat_ceiling));
  }
  double most_steps_down() const { return as_real(clock_steps_); }

  struct Place {
    size_t pipeline = 0, stage = 0;
  };
  size_t num_devices() const { return places_.size(); }
  const Place& place_of(size_t device) const { return places_[device]; }
  const LockstepGroup& group_of(size_t device) const {
    return pipelines[places_[device].pipeline].groups[places_[device].stage];
  }

  /// Threads over pipelines, and for a number of pieces of work; never in a result.
  int threads() const { return threads_; }
  int threads_for(size_t pieces) const;

 private:
  /// Shares of its links' bandwidth that a lockstep group or a stage has.
  struct LinkShares {
    double scale_up = 1, scale_out = 1;
    friend bool operator==(const LinkShares&, const LinkShares&) = default;
  };

  void find_uses();
  void find_places();
  LinkShares shares_of(const LockstepGroup&) const;
  size_t estimate_with(const LinkShares&);

  int threads_ = 1;
  std::vector<Place> places_;              // [device]
  std::vector<power::ClockPoint> clocks_;  // empty without power
  double step_ratio_ = 1;                  // a clock step over the highest clock
  int64_t clock_steps_ = 0;                // below the highest clock
  Conditions conditions_;
  std::optional<Wiring> wiring_;
  std::vector<std::pair<size_t, workload::ActionKind>> phases_;  // distinct: chunk work and kind
  std::vector<LinkShares> link_shares_;                          // distinct, in order of arrival
  std::vector<PhaseTable> tables_;                               // [link shares][phase]
  std::vector<EpilogueEstimate> epilogues_;                      // [link shares][step work]
  std::vector<size_t> epilogue_links_;                           // [stage], of link_shares_
};

}  // namespace triplepoint::sim
