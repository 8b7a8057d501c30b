// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer.h"

namespace triplepoint::advise {

/// Steps and series of [begin, end) of a run. Series keep the value that held at `begin`.
run::Run window_of(const run::Run&, Seconds begin, Seconds end);
/// From the first step's begin to the last thing known.
struct RunExtent {
  Seconds begin, end;
};
std::optional<RunExtent> extent_of(const run::Run&);

/// Faults that explain how readings differ from a baseline of the same machine.
///
///   R_d    = (die_d - inlet_n) / P_d, before the fault: the device's thermal path to the air
///   rise_n = median over a node's devices of (die_d - R_d P_d) now, less the inlet
///   path_d = (die_d - inlet_n - rise_n) / (R_d P_d) now
///   power_d = P_d now, where the device itself runs slower than before the fault
///
/// Rises above 2 K, paths 15 % worse and power 4 % lower at clocks 3 % lower count; the rest is
/// noise. Holds for readings of thermal equilibrium, about a minute. What neither heat nor power
/// explains (hosts, links) is not found.
std::vector<spec::Fault> explain(const spec::Job&, const SteerReadings& baseline,
                                 const SteerReadings& now);
/// "inlet of node 1 is 6 K warmer; GPU 9 is held at 520 W".
std::string words_of(const std::vector<spec::Fault>&, const spec::Job&);

/// A controller for an external job: it reads measurements and advises.
///
/// The first windows are the baseline. A later one that differs is explained by faults; a machine
/// like the job's with these faults is simulated ahead for every alternative (steer_moves.h), and
/// the policy picks. Only ratios of predictions are used, so a model that is off by some per cent
/// does not mislead.
class Watcher {
 public:
  Watcher(const spec::Job& job, const SteerOptions& options);

  /// One window; windows come in order. A decision where something was thought about.
  std::optional<Decision> look(const run::Run& window, Seconds now);
  /// The last advice was followed.
  void followed();
  bool has_baseline() const { return baseline_.has_value(); }

 private:
  Decision think(const SteerReadings& seen, const std::string& words, Seconds now);

  spec::Job job_;
  SteerOptions options_;
  SteerSetting present_, initial_;
  SteerPolicy policy_;
  std::optional<SteerReadings> baseline_, before_;
  std::optional<Seconds> episode_;
  Seconds next_thought_;
  struct Advice {
    Seconds when;
    SteerSetting setting;
    SteerOption option;
  };
  std::optional<Advice> advice_;
};

}  // namespace triplepoint::advise
