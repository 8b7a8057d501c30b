// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer_moves.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {

struct SteerOptions {
  Seconds duration = 1800 * unit::s;
  Seconds interval = 30 * unit::s;  // between two looks
  SteerRules rules;
  MoveOptions moves;
  search::Goal goal = search::Goal::edp;
  Seconds restart = 600 * unit::s;              // stop, start, read the checkpoint, compile
  Seconds checkpoint_interval = 600 * unit::s;  // restarts happen right after a checkpoint
  bool tune = true;   // both sides begin with the clock limit that is best without disturbance
  bool check = true;  // where everything was left: simulate the alternatives, too
  std::function<void()> advance = {};  // told at every look
  std::function<bool()> stopped = {};
};

/// An alternative that was looked at.
struct Considered {
  Candidate candidate;
  std::string setting;
  double ratio = 1;  // predicted objective over leaving it
  Forecast forecast;
};

/// One time the controller thought.
struct Decision {
  Seconds time;
  MoveKind kind = MoveKind::leave;
  std::string seen;    // what made it think
  std::string action;  // "limit all clocks to 1485 MHz"; "leave it"
  std::string reason;
  std::string setting;  // from then on
  double ratio = 1;     // predicted, of the action
  Seconds horizon;      // for which it was predicted
  Seconds cost;         // training is paused
  Forecast leave, then;
  std::vector<Considered> considered;
};

/// What a stretch of training came to.
struct SteerTotals {
  Seconds time;
  double steps = 0;  // with the part of the last one
  int64_t tokens_per_step = 0;
  Joules energy;  // all devices
  Celsius hottest;
  double step_time() const { return time / unit::s / steps; }
  double joules_per_step() const { return energy / unit::J / steps; }
  /// Energy x time of a step: less is better, whatever was done in how long.
  double energy_delay() const { return step_time() * joules_per_step(); }
};
double objective_of(const SteerTotals&, search::Goal);

/// Moments of both sides, for a picture.
struct SteerPoint {
  Seconds time;
  std::optional<double> step_time_s;
  double power_w = 0, hottest_c = 0, lowest_clock_mhz = 0, mean_clock_mhz = 0;
};

/// A move that was not made, simulated nevertheless.
struct Checked {
  std::string what;
  double ratio = 1;  // of the objective over that of leaving it
};

struct SteerOutcome {
  std::string initial;  // setting both begin with
  SteerTotals fixed, steered;
  std::vector<SteerPoint> fixed_points, steered_points;
  std::vector<Decision> decisions;
  int moves = 0, restarts = 0;
  std::vector<Checked> checked;  // best first
  bool stopped = false;
  double ratio(search::Goal goal) const {
    return objective_of(steered, goal) / objective_of(fixed, goal);
  }
  /// Leaving everything was right: no checked alternative gains more than the margin.
  bool leaving_was_right(double margin) const {
    return checked.empty() || checked.front().ratio > 1 - margin;
  }
};

/// Simulates a job through its faults twice on the same boards: left alone, and with a controller
/// that looks every interval at what was recorded since the last look.
///
/// Where an alarm comes or goes, where step time, power, clocks or heat have moved, or where what
/// began earlier lasts, it simulates copies of the machine ahead, each with one thing changed,
/// under what is known now (known_at), and asks the policy. Clock limits and caps cost nothing;
/// what restarts the job costs the restart, after the next checkpoint, and pays only if what is
/// wrong stays: it is assumed to last once more as long as it has lasted.
///
/// Of faults the controller is told what is wrong, as a diagnosis would; not when it ends, nor what
/// comes. The job must be free of errors and fit.
SteerOutcome steer(const spec::Job&, const SteerOptions&);

/// "step time 4.1 % up; node 1 at 88 % of the others' clocks", against earlier readings; empty if
/// nothing has moved.
std::string change_words(const SteerReadings& before, const SteerReadings& now);

/// A machine that is simulated and counted: one side of a comparison. Begins at thermal steady
/// state.
class Track {
 public:
  explicit Track(const spec::Job& job) : world_(job) { world_.solve_steady_state(); }

  const sim::TransientSimulation& world() const { return world_; }
  const spec::Job& job() const { return world_.job(); }
  Seconds now() const { return world_.now(); }
  std::vector<SteerPoint> take_points() { return std::move(points_); }

  std::optional<SteerReadings> advance(Seconds duration);
  void change(const spec::Job& job) { world_.change(job); }
  /// Training is paused; each device draws `power`.
  void pause(Seconds duration, Watts power);

  /// The part of the step that is not ended yet counts, as long as steps go on as they did.
  SteerTotals finished() const;

 private:
  void count_steps(const run::Run& window);
  void count_energy(const run::Run& window, Seconds begin);
  void add_point(const run::Run& window, Seconds begin, const std::optional<SteerReadings>& seen);

  sim::TransientSimulation world_;
  SteerTotals totals_;
  Seconds step_begin_, last_step_;
  std::vector<SteerPoint> points_;
};

/// Power of all devices of a job while training is paused.
Watts idle_power(const spec::Job& job);

/// What the last looks show of a machine that may flap: the last one if it agrees with the one
/// before, else, after four, their mean. Nothing as long as neither is known.
class DebounceFilter {
 public:
  std::optional<SteerReadings> update(const SteerReadings& look);
  void forget() { looks_.clear(); }

 private:
  std::vector<SteerReadings> looks_;
};

/// The controller of a simulated job. See steer().
class Controller {
 public:
  Controller(const spec::Job& base, const SteerOptions& options);

  spec::Job job() const { return job_with(base_, present_); }
  const SteerPolicy& policy() const { return policy_; }
  const SteerSetting& initial() const { return initial_; }

  /// One look at what was recorded since the last one. Changes the machine if something is to be
  /// gained.
  void look(Track& track, const std::optional<SteerReadings>& look,
            std::vector<Decision>& decisions);

 private:
  struct Alternatives {
    Forecast leave;
    std::vector<Candidate> candidates;
    std::vector<Forecast> forecasts;
    std::vector<SteerOption> options;
  };

  void tune();
  std::string diagnosis_change(Seconds now);
  bool is_news(const SteerReadings& seen) const;
  std::optional<int64_t> node_at_fault() const;
  Seconds next_checkpoint(Seconds now) const;
  bool after_checkpoint(Seconds now) const;
  Alternatives look_ahead(const Track& track, const SteerReadings& seen, Seconds horizon) const;
  Decision think(Track& track, const SteerReadings& seen);
  void act(Track& track, const Alternatives& alternatives, std::size_t which, Decision& decision);

  const spec::Job& base_;
  const SteerOptions& options_;
  SteerSetting present_, initial_;
  SteerPolicy policy_;
  DebounceFilter debounce_;
  std::vector<spec::Fault> diagnosis_;   // at the last look
  std::optional<SteerReadings> before_;  // at the last thought
  std::vector<SteerReadings> thoughts_;  // of this episode and setting
  std::optional<Seconds> episode_;       // since when something is different
  Seconds next_thought_;
  std::string seen_words_;
};

/// Cost ratios of the alternatives, best first.
std::vector<Considered> considered_of(const std::vector<Candidate>&, const std::vector<Forecast>&,
                                      const std::vector<SteerOption>&);

}  // namespace triplepoint::advise
