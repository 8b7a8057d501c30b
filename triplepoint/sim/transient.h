// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

namespace triplepoint::sim {

class StepModel;

/// How long to simulate. Neither duration nor steps: to thermal steady state, of which one detailed
/// step is kept.
struct Horizon {
  std::optional<Seconds> duration;  // a transient from a machine at its inlet temperature
  std::optional<int64_t> steps;     // likewise, this many training steps
  bool timeline = true;             // keep the detailed step's timeline and series
  bool causes = true;               // find which clocks are lost to what, and who sets the pace
};

/// A cluster that keeps its time and heat while what runs on it changes: what a controller acts on
/// and tries things with.
///
/// Time passes in windows of constant mean power, with exact heat in each and clocks chosen anew
/// between them. A window is 1, 2, 5 or 10 s long, as long as dies move by little in it, and ends
/// at a multiple of its length, where a fault changes, and at the end of what is asked for; steps
/// go on through windows at the pace of their clocks, 1 / step time, and end inside. So advancing
/// in parts that end at multiples of ten seconds gives the bits of advancing at once. Copies are
/// independent and cheap next to advancing them.
class TransientSimulation {
 public:
  /// At rest at the inlet temperature. The job must be free of errors and fit.
  explicit TransientSimulation(const spec::Job& job);
  explicit TransientSimulation(std::unique_ptr<StepModel> model);
  TransientSimulation(const TransientSimulation&);
  TransientSimulation& operator=(const TransientSimulation&);
  TransientSimulation(TransientSimulation&&) noexcept;
  TransientSimulation& operator=(TransientSimulation&&) noexcept;
  ~TransientSimulation();

  const spec::Job& job() const;
  Seconds now() const;
  /// At the wall, while its devices draw so much and its fans stand as they do now.
  Watts node_power(int64_t node, Watts devices) const;
  /// Goes where the present job leads in the end, without time passing; faults of this moment hold.
  void solve_steady_state();
  /// Trains on: steps and series (power_w, die_c, sm_clock_mhz, throttled_share per device, and of
  /// clusters that are not too large utilization and memory_c) of that time on the simulation's
  /// clock, and summaries of the last step.
  run::Run advance(Seconds duration);
  /// Advances by the horizon's duration or number of steps.
  run::Run advance(const Horizon& horizon);
  /// Adds a step in detail: peaks, ripple and timeline in place of the plain summaries. Its
  /// temperatures, faults and length are those of the step that ended last.
  void record_detail(run::Run& run, const Horizon& horizon);
  /// Pauses training: a restart, a checkpoint write, a move.
  void pause(Seconds duration);
  /// Another plan, other limits or faults, on the same boards; heat and time go on.
  void change(const spec::Job& job);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace triplepoint::sim
