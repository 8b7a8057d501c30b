// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/settle.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/sim/step_model.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// A job with all that is computed from it once. Stays where it is: its parts point at each other.
struct Situation {
  explicit Situation(const spec::Job& job);
  ~Situation() = default;
  Situation(const Situation&) = delete;
  Situation& operator=(const Situation&) = delete;
  Situation(Situation&&) = delete;
  Situation& operator=(Situation&&) = delete;

  spec::Job job;
  workload::WorkGraph graph;
  StepModel model;
};

/// The only way time passes: windows of constant mean power, exact heat in each, clocks chosen anew
/// between them. Windows end on whole seconds, where a fault changes, and at the end of what is
/// played; steps go on through them at the pace of their clocks, 1 / step time, and end inside.
/// So playing to a whole second in two parts gives the bits of playing there in one.
class Passage {
 public:
  explicit Passage(const spec::Job&);
  Passage(const Passage&);
  Passage& operator=(const Passage&) = delete;
  Passage& operator=(Passage&&) noexcept = default;
  Passage(Passage&&) noexcept = default;
  ~Passage() = default;

  const spec::Job& job() const { return at_->job; }
  Seconds now() const { return now_; }

  void settle();
  void pause(Seconds duration);
  void change(const spec::Job&);
  /// So long or so many steps, as the horizon says; series and steps of that time, summaries of the
  /// last step.
  run::Run play(const Horizon&);
  /// The step of this moment in detail: peaks, ripple and timeline in place of the plain summaries.
  void record_detail(run::Run&, const Horizon&);

 private:
  enum class Activity { training, standing };
  struct Played {
    run::Run& run;
    const Horizon& horizon;
    Seconds until;  // infinite: the horizon counts steps
  };

  void meet_changes();
  void refresh_step();
  Seconds window_end(Seconds until) const;
  Seconds to_end_of_steps(const Played&) const;
  std::vector<Watts> idle_powers() const;
  Activity activity() const;
  void pass(Activity, Seconds end, Played*);
  void train(Seconds window, Played*);
  void end_step(Seconds end, Played*);
  void append_series(run::Run&, Activity, const std::vector<Watts>& power) const;

  std::unique_ptr<Situation> at_;
  ClusterHeat heat_;
  CoupledStep step_;       // of this moment, if fresh_
  bool has_step_ = false;  // step_ was played under these links and hosts
  bool fresh_ = false;     // and at these temperatures and limits
  Seconds now_, step_begin_, standing_until_;
  double progress_ = 0;              // of the running step
  int64_t steps_to_redo_ = 0;        // lost with a node
  std::optional<Seconds> loss_met_;  // when
};

}  // namespace triplepoint::sim
