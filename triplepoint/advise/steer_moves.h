// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {

/// Everything that a controller may set about a job.
struct SteerSetting {
  double ceiling = 1;            // clock limit of every GPU, share of the highest clock; 1: none
  std::vector<int64_t> swapped;  // nodes that spare ones stand in for, ascending
  friend bool operator==(const SteerSetting&, const SteerSetting&) = default;
};
/// "clocks up to 1485 MHz, spare for node 1": names a setting, equal for equal ones.
std::string words_of(const SteerSetting&, const spec::Job& base);
/// The base job with a setting. A swapped node takes its faults with it; the spare is assumed to be
/// like the node was without them.
spec::Job job_with(const spec::Job& base, const SteerSetting&);

/// What is seen of a window of training.
struct SteerReadings {
  Seconds step_time;
  std::vector<double> clock, die_c, power_w;  // [device], means; clock: share of the highest
  // [device], shares of time: the hardware's brake or slowdown, heat; 0 where reasons are unknown.
  std::vector<double> braked, hot;
  Watts power() const;          // all devices
  std::size_t slowest() const;  // devices
  std::size_t hottest() const;
};
/// Of the whole run, or of the steps that end in a window of it. Absent without a whole step, or
/// where a device lacks clock, power or die temperature.
std::optional<SteerReadings> readings_of(const run::Run&, const spec::Job&,
                                         std::optional<run::Extent> window = {});
/// "step time 4.1 % up; GPU 9 is the slowest, at 88 % of its clock", against earlier readings;
/// empty if nothing has moved.
std::string change_words(const SteerReadings& before, const SteerReadings& now);

/// In the scope, while the devices draw `device_w` (W) and fans stand as they do now.
Watts power_in(metrics::EnergyScope, const sim::TransientSimulation& now,
               std::span<const double> device_w);

/// Where a setting leads.
struct Forecast {
  Seconds step_time;  // zero: heat ends the job
  Watts power;        // in the scope in which energy counts
  bool runs() const { return step_time > Seconds(); }
};
/// Advances a copy of the simulation: to the thermal steady state of the conditions that hold now.
/// What flaps is on for half of the time: rates (steps a second) and powers of both halves are
/// averaged, which holds where a half lasts longer than a step.
Forecast foresee(const sim::TransientSimulation& now, const spec::Job& job,
                 metrics::EnergyScope scope);

/// What a move costs before it brings anything.
struct MoveCost {
  Seconds time;
  Watts power;  // in the scope, while training is paused
};

/// Energy-delay of doing `then` over that of leaving it, for the work that leaving it does in
/// `horizon`. Infinite where heat ends `then`; 0 where it ends the job that is left alone only.
///
///   W = horizon / t0;  T = c + W t1;  E = c Pc + W t1 P1;  ratio = T E / (horizon^2 P0)
double worth(const Forecast& leave, const Forecast& then, const MoveCost& cost, Seconds horizon);

/// One thing to do, where it leads, and what that is predicted to be worth.
struct SteerMove {
  SteerSetting setting;
  std::string name;  // words_of(setting)
  std::string what;  // "limit all clocks to 1485 MHz"
  bool restarts = false;
  Forecast then;
  double ratio = 1;  // worth(): < 1 gains
};

struct MoveOptions {
  int spares = 0;
  bool may_restart = true;
};
/// What may help, given what is seen: clock limits in steps of a fortieth of the highest, a spare
/// for a node; always what was set at the beginning.
/// Illegal plans and plans that do not fit are left out. Forecasts are left open.
std::vector<SteerMove> possible_moves(const spec::Job& base, const SteerSetting& initial,
                                      const SteerSetting& present, int64_t node,
                                      const MoveOptions&);

/// What a controller is allowed.
struct SteerRules {
  Seconds dwell = 120 * unit::s;  // least time between two moves
  double margin = 0.005;          // least predicted gain of a move
  double restart_margin = 0.02;   // of one that restarts the job
  int most_restarts = 1;
};

/// Picks the best move that the rules allow.
///
/// A move needs: a gain above the margin; the dwell time since the last move; a restart that is
/// left, if it restarts. A setting that was left before may come back only after dwell x 2^n, n:
/// how often it was left. So no A -> B -> A happens within the dwell time, and a disturbance that
/// flaps for ever is followed less and less (at most 1 + log2(T / dwell) times into each setting).
class SteerPolicy {
 public:
  SteerPolicy(SteerRules rules, std::string setting)
      : rules_(rules), setting_(std::move(setting)) {}

  struct Verdict {
    std::optional<std::size_t> move;  // absent: leave it
    std::string why;                  // it is left
  };
  Verdict choose(Seconds now, std::span<const SteerMove> moves) const;
  void moved(Seconds now, const SteerMove& move);

  const std::string& setting() const { return setting_; }
  int moves() const { return moves_; }
  int restarts() const { return restarts_; }

 private:
  std::string refusal(Seconds now, const SteerMove& move) const;

  struct Reversal {
    Seconds when;
    int times = 0;
  };
  SteerRules rules_;
  std::string setting_;
  std::map<std::string, Reversal> left_;
  std::optional<Seconds> last_move_;
  int moves_ = 0, restarts_ = 0;
};

}  // namespace triplepoint::advise
