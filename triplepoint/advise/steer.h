// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer_moves.h"
#include "triplepoint/answers/document.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {

struct SteerOptions {
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;  // in which energy counts
  Seconds duration = 1800 * unit::s;
  Seconds interval = 30 * unit::s;  // between two looks
  SteerRules rules;
  MoveOptions moves;
  Seconds restart = 600 * unit::s;              // stop, start, read the checkpoint, compile
  Seconds checkpoint_interval = 600 * unit::s;  // restarts happen right after a checkpoint
  Watch watch = {};                             // each look is a piece
};

/// One time the controller thought.
struct Decision {
  Seconds time;
  std::string seen;               // what made it think
  std::optional<SteerMove> move;  // absent: leave it
  std::string reason, setting;    // setting: from then on
  Seconds horizon;                // for which it was predicted
  Seconds cost;                   // training is paused
};

/// Looks at a job in intervals and says what to set.
///
/// Where a fault comes or goes, and again after 2, 4, 8, ... intervals and at each checkpoint while
/// it lasts, it simulates copies of the machine ahead, each with one thing changed, under the
/// faults that are known now, and asks the policy. Clock limits cost nothing; what restarts the job
/// costs the restart, after a checkpoint, and pays only if what is wrong stays: it is assumed to
/// last once more as long as it has lasted.
class Controller {
 public:
  Controller(const spec::Job& base, const SteerOptions& options);

  /// The job under the present setting.
  spec::Job job() const { return job_with(base_, present_); }
  const SteerPolicy& policy() const { return policy_; }
  /// Between two looks: as asked for, or 2.5 steps, since a look that sees no whole step sees
  /// nothing.
  Seconds interval() const { return options_.interval; }

  /// What was read since the last look, and the faults that are known; `machine` is where forecasts
  /// begin. A decision if there was something to think about.
  std::optional<Decision> look(const sim::TransientSimulation& machine, const SteerReadings& read,
                               const std::vector<spec::Fault>& faults, Seconds now);

 private:
  void tune_clocks();
  bool diagnose(const std::vector<spec::Fault>& faults);
  int64_t suspect(const SteerReadings& read) const;
  Seconds last_checkpoint(Seconds now) const;
  Decision think(const sim::TransientSimulation& machine, const SteerReadings& read, Seconds now);

  spec::Job base_;
  SteerOptions options_;
  SteerSetting present_, initial_;
  SteerPolicy policy_;
  std::vector<spec::Fault> diagnosis_;  // at the last look
  std::string alarm_;                   // how it differed from the one before
  std::optional<Seconds> episode_;      // since when something is wrong
  Seconds next_thought_;
};

/// What a stretch of training came to.
struct SteerTotals {
  Seconds time;
  double steps = 0;  // with the part of the last one
  Joules energy;     // in the scope
  Joules device_energy;
  Celsius hottest;
  double step_time() const { return time / unit::s / steps; }
  double joules_per_step() const { return energy / unit::J / steps; }
  /// Energy x time of a step: less is better, whatever was done in how long.
  double energy_delay() const { return step_time() * joules_per_step(); }
};

/// One of two machines that are compared: what it came to, and how each look found it.
struct SteerSide {
  SteerTotals totals;
  std::vector<std::pair<Seconds, SteerReadings>> looks;
  std::string ended = {};  // by heat, as run::shutdown_text() says it: all numbers are until then
};

struct SteerOutcome {
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;
  std::string initial;  // setting both begin with
  SteerSide fixed, steered;
  std::vector<Decision> decisions;
  int moves = 0, restarts = 0;
  bool interrupted = false;  // before its end
  double ratio() const { return steered.totals.energy_delay() / fixed.totals.energy_delay(); }
};

/// Simulates a job through its faults twice on the same boards, from thermal steady state: left
/// alone, and with a controller that is told what is wrong, as a diagnosis would; not when it ends,
/// nor what comes. Both begin with the clock limit that is best without faults, so that what the
/// controller gains is not what a fixed limit would. The job must be free of errors and fit.
SteerOutcome steer(const spec::Job&, const SteerOptions&);

/// What a diagnosis at this moment can know: the faults that are on, as if they would stay. What is
/// yet to come is not known, nor when something ends. Links that flap are known to.
std::vector<spec::Fault> faults_known_at(const spec::Job&, Seconds now);

/// Faults that explain how readings differ from a baseline of the same machine.
///
///   R_d    = (die_d - inlet_n) / P_d, before the fault: the device's thermal path to the air
///   rise_n = median over a node's devices of (die_d - R_d P_d) now, less the inlet
///   path_d = (die_d - inlet_n - rise_n) / (R_d P_d) now
///   power_d = P_d now, where the device itself runs slower than before the fault and no heat holds
///             it, or where the hardware's brake does
///
/// Braked devices tell nothing of air and paths: they work far from where their path was seen.
/// Rises above 2 K, paths 15 % worse and power 4 % lower at clocks 3 % lower count; the rest is
/// noise. Where all of a node are held at some power, the median is the node's. Holds for readings
/// of thermal equilibrium, about a minute. What neither heat nor power explains (hosts, links) is
/// not found.
std::vector<spec::Fault> explain(const spec::Job&, const SteerReadings& baseline,
                                 const SteerReadings& now);

struct Alarm {
  Seconds time;
  std::string seen;                 // "step time 12.1 % up; GPU 9 at 78 °C"
  std::vector<spec::Fault> faults;  // that explain it
};

/// Watches a job on a real machine. The first window is the baseline; one that differs from it, or
/// from the one of the last alarm, is an alarm.
class Watcher {
 public:
  explicit Watcher(const spec::Job& job) : job_(job) {}

  /// Windows come in order; one without a whole step or without readings says nothing, nor does one
  /// in which training stood still.
  std::optional<Alarm> look(const run::Run&, run::Extent window);
  bool has_baseline() const { return baseline_.has_value(); }

 private:
  spec::Job job_;
  std::optional<SteerReadings> baseline_, before_;
};

/// Without and with the controller, what moves cost included; what it saw, did, and why.
answers::Document steer_answer(const spec::Job&, const SteerOutcome&);

/// What was seen, and the faults that explain it, as simulate and steer take them.
std::string alarm_text(const Alarm&);
Json alarm_json(const Alarm&);

}  // namespace triplepoint::advise
