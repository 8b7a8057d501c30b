// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/search/bound.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/schedule_engine.h"
#include "triplepoint/sim/wiring.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::search {

/// Keeps when sends begin, in seconds, and nothing of actions.
struct SendRecord {
  std::vector<std::vector<double>> begins;  // [wire]

  void start(std::span<const sim::StageTimes> stages) {
    begins.resize(2 * stages.size());
    for (std::vector<double>& of_wire : begins)
      of_wire.clear();
  }
  static void begin_action(size_t, const workload::Action&, Seconds, Seconds) {}
  static void end_action(size_t, Seconds) {}
  static size_t last_action(size_t) { return 0; }
  void send(size_t wire, size_t, Seconds begin, Seconds) {
    begins[wire].push_back(begin / unit::s);
  }
};

/// When the stages of one pipeline are through, where sends take the time they take alone: the
/// bits of sim::simulate_schedule without a record of each action.
class FinishTimeScheduler {
 public:
  /// Finish of each stage; valid until the next call.
  std::span<const Seconds> finish_times(std::span<const sim::StageTimes> stages,
                                        std::span<const sim::Wire> wires, sim::SendMode mode,
                                        const sim::ScheduleRules& rules);

  /// Whether the sends of the last call never ask more of a link than it carries. Then no send
  /// slows down another, and sim::simulate_schedule, event by event, ends every stage at the same
  /// time. `pipeline` is the one of the last call, of a wiring in which no other shares its links.
  bool links_suffice(const sim::Wiring& wiring, size_t pipeline) const;

 private:
  sim::ScheduleEngine<SendRecord, sim::Delays::none> engine_;
  std::vector<Seconds> finish_;
};

/// Where a step's time goes on the stage that works longest. The terms add up to the step.
enum class Term {
  compute,     // kernels at full clock, each needed once
  recompute,   // what is computed again
  exposed,     // communication inside passes that nothing hides
  launch,      // the host is later than the device; gaps between passes
  throttling,  // kernels at the clock that the power limit leaves
  sends,       // activations and gradients between stages, where the stream waits for them
  bubble,      // waiting for other stages, to the end of the step
  data_sync,   // reduction of gradients and gather of parameters that show
  optimizer,   // norm and update
  overhead     // of the step: data, logging
};
inline constexpr size_t term_count = 10;
std::string_view name_of(Term);

/// One plan at the schedule-accurate fidelity: a mean device everywhere.
struct StepEstimate {
  double time = 0;                         // s
  double energy = 0;                       // J, all devices
  double peak_power = 0;                   // W: mean power of the hungriest phase of a device
  std::array<double, term_count> terms{};  // s
  double term(Term which) const { return terms[as_size(which)]; }
};

struct PhaseEstimates;

/// Simulates the schedule of one plan, with sim's estimates, governor and scheduler; sends share
/// links where the machine makes them. Equal to sim::StepModel on a machine without spread, at one
/// die temperature (step_test.cpp).
///
/// Keeps what plans share (programs); one per thread.
class StepEvaluator {
 public:
  StepEvaluator(const spec::Job& base, Typical typical);

  /// The plan with its memory, exactly.
  workload::MemoryVerdict memory(const spec::Plan& plan);
  StepEstimate evaluate(const spec::Plan& plan);
  /// The same; nothing for plans that are not asked for, whose links are not looked at: sends that
  /// share none end no later.
  std::optional<StepEstimate> evaluate(const spec::Plan& plan, const MayWin& may_win);
  /// Evaluations that went through shared links, event by event.
  int64_t linked() const { return linked_; }

 private:
  std::vector<workload::StageProgram>& programs_of(const spec::Plan& plan);
  PhaseEstimates estimate(const workload::WorkGraph& graph) const;
  std::optional<StepEstimate> schedule(const PhaseEstimates& phases,
                                       const workload::WorkGraph& graph, const MayWin& may_win);
  std::vector<Seconds> finishes_alone(const std::vector<sim::StageTimes>& times,
                                      const sim::Wiring& wiring, const PhaseEstimates& phases);

  spec::Job job_;
  Typical typical_;
  sim::HardwareVariation hardware_;
  FinishTimeScheduler scheduler_;
  std::map<std::array<int64_t, 4>, std::vector<workload::StageProgram>> programs_;
  int64_t linked_ = 0;
};

}  // namespace triplepoint::search
