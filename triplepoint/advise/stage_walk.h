// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/advise/pass_graph.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::advise {

/// What the lockstep group of a stage does when no device of it may exceed clock k steps below the
/// highest.
struct GroupCurve {
  struct Point {
    std::vector<std::array<Seconds, sim::action_kind_count>> passes;  // [chunk]: of the group
    Seconds worked;                                                   // over a step
    Joules energy;  // over a step of fixed length, waiting included, all devices of the group
  };
  std::vector<Point> points;  // [k]
};

/// Clock steps from the highest clock to the lowest that a governor takes.
int64_t most_steps_down(const spec::Gpu& gpu);

/// The curve of one group at the clocks and temperatures of a settled step: a member runs at the
/// lower of the limit and of what its governor chose.
GroupCurve group_curve(sim::StepModel& model, const sim::CoupledStep& step, size_t pipeline,
                       size_t stage);

/// Lowers the clocks of the stages of one pipeline, one step of one stage after the other: always
/// the one that saves most energy for the time by which it delays the end (for the slack it uses
/// up, where it delays nothing), while no stage ends later than its deadline and some extra.
///
/// Critical path and slack are of the present clocks in each move, so that what lies off the path
/// is lowered until it lies on it. A stage stops where a lower clock would cost energy.
class StageWalk {
 public:
  StageWalk(PassGraph graph, std::vector<GroupCurve> curves, std::vector<Seconds> deadlines);

  /// Goes on from where the last call ended; `extra` must not fall.
  void go_on(Seconds extra);
  /// Of each stage, how many clock steps below the highest.
  const std::vector<int64_t>& steps_down() const { return down_; }
  /// The least slack of each stage's passes of one direction, at the present clocks.
  struct Slack {
    Seconds forward, backward;
  };
  std::vector<Slack> slacks() const;
  /// So many steps down a stage's passes take no longer: its host launches them more slowly than it
  /// runs them, or a slower member sets its pace.
  std::vector<int64_t> free_steps() const;

 private:
  struct Move {
    size_t stage = 0;
    double worth = -1;
  };
  size_t latest_stage() const;
  Seconds lateness() const;
  Move best_move(const std::vector<bool>& blocked) const;
  int64_t next_down(size_t stage) const;
  void update();

  PassGraph graph_;
  std::vector<GroupCurve> curves_;
  std::vector<Seconds> deadlines_;
  std::vector<int64_t> down_;
  PassTimes times_;
};

}  // namespace triplepoint::advise
