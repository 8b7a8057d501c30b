// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/search/objective.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {

/// What a controller is allowed.
struct SteerRules {
  Seconds dwell = 120 * unit::s;  // least time between two moves
  double margin = 0.005;          // least predicted gain of a move
  double restart_margin = 0.02;   // of one that restarts the job
  int most_moves = 8;
  int most_restarts = 1;
};

/// One thing to do, and what it is predicted to be worth.
struct SteerOption {
  std::string setting;  // what the job is then; equal texts are equal settings
  bool restarts = false;
  double ratio = 1;  // of the objective over leaving everything as it is, costs included; < 1 gains
};

/// Picks the best option that the rules allow.
///
/// A move needs: a gain above the margin; the dwell time since the last move; budget. A setting
/// that was left before may come back only after dwell x 2^n, n: how often it was left. So no
/// A -> B -> A happens within the dwell time, a disturbance that flaps for ever is followed less
/// and less (at most 1 + log2(T / dwell) times into each setting), and there are never more moves
/// than asked for.
class SteerPolicy {
 public:
  SteerPolicy(SteerRules rules, std::string setting)
      : rules_(rules), setting_(std::move(setting)) {}

  struct Verdict {
    std::optional<std::size_t> option;  // absent: leave it
    std::string why;                    // it is left
  };
  Verdict choose(Seconds now, std::span<const SteerOption> options) const;
  void moved(Seconds now, const SteerOption& option);

  const std::string& setting() const { return setting_; }
  const SteerRules& rules() const { return rules_; }
  int moves() const { return moves_; }
  int restarts() const { return restarts_; }

 private:
  std::string refusal(Seconds now, const SteerOption& option) const;

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

enum class MoveKind { leave, clock_limit, power_cap, microbatch, layer_shift, node_swap };
std::string_view name_of(MoveKind);

/// Everything that a controller may set about a job.
struct SteerSetting {
  double ceiling = 1;  // clock limit of every GPU, share of the highest clock; 1: none
  double cap = 1;      // power limit of every GPU, share of the job's own
  int64_t micro_batch_size = 1;
  std::vector<int64_t> layers_per_stage;  // empty: even
  std::vector<int64_t> swapped;           // nodes that spare ones stand in for, ascending
  friend bool operator==(const SteerSetting&, const SteerSetting&) = default;
};
SteerSetting setting_of(const spec::Job&);
/// "clocks 1485 MHz, microbatch 2": names a setting, equal for equal ones.
std::string words_of(const SteerSetting&, const spec::Job& base);
/// The base job with a setting. A swapped node takes its faults with it; the spare is assumed to be
/// like the node was without them.
spec::Job job_with(const spec::Job& base, const SteerSetting&);

/// What is seen of a window of training.
struct SteerReadings {
  Seconds step_time;
  Watts power;                                // all devices
  std::vector<double> clock, die_c, power_w;  // [device], means
  int64_t slowest_node = 0, hottest_device = 0;
  double lowest_clock = 1, mean_clock = 1;  // shares of the highest
};
/// Absent where the window has no whole step, or no series.
std::optional<SteerReadings> readings_of(const run::Run& window, const spec::Job&);

/// One thing to do.
struct Candidate {
  MoveKind kind = MoveKind::leave;
  SteerSetting setting;
  bool restarts = false;
  std::string what;  // "limit all clocks to 1485 MHz"
};

/// The setting with every clock limit below its own, highest first.
std::vector<SteerSetting> clock_ladder(const SteerSetting&);

struct MoveOptions {
  int spares = 0;
  bool may_restart = true;
};
/// What may help, given what is seen: clock limits, power caps, twice and half the microbatch, a
/// layer from the slowest stage to the fastest, a spare for the slowest node; always what was set
/// at the beginning. Illegal plans and plans that do not fit are left out.
std::vector<Candidate> candidates(const spec::Job& base, const SteerSetting& initial,
                                  const SteerSetting& present, const SteerReadings&,
                                  const MoveOptions&);

/// Where a setting leads.
struct Forecast {
  Seconds step_time;
  Watts power;  // all devices
  Celsius hottest;
};
/// Advances a copy of the simulation: to the thermal steady state of the conditions that hold now.
/// What flaps is on for half of the time: paces (steps a second) and powers of both halves are
/// averaged, which holds where a half lasts longer than a step.
Forecast foresee(const sim::TransientSimulation& now, const spec::Job& job);

/// What a move costs before it brings anything.
struct MoveCost {
  Seconds time;
  Watts power;  // of all devices while training is paused
};

/// Objective of doing `then` over that of leaving it, for the work that leaving it does in
/// `horizon`; energy-delay for Goal::edp.
///
///   W = horizon / t0;  T = c + W t1;  E = c Pc + W t1 P1;  ratio = T E / (horizon^2 P0)
double worth(const Forecast& leave, const Forecast& then, const MoveCost& cost, Seconds horizon,
             search::Goal goal);

}  // namespace triplepoint::advise
