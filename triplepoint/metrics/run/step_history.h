// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

/// Steps in a row that take about as long.
struct StepLevel {
  int64_t first = 0, steps = 0;  // in the order of time, from 0
  Seconds begin;                 // since the first step began
  Seconds time;                  // of one step, median
};

/// Something that the times of steps show, beyond their scatter.
struct StepPattern {
  enum class Kind : uint8_t {
    start,     // the first steps: compilation, allocation, connections
    drift,     // steps get slower while the machine warms, exponentially; pauses cool it
    slowdown,  // levels, each slower than the one before; fast again only after a pause
    spell,     // levels, of which a faster one follows a slower one without a pause
    periodic,  // every `period` steps one is longer, or a pause follows
    tails,     // single steps are longer
    between,   // the same short time passes between any two steps
    pauses     // long times between steps: restarts, evaluation, checkpoints
  };
  Kind kind = Kind::tails;
  Seconds cost;  // per step, mean over all steps
  // That it is more than chance, of drift, levels and periods; what is only added up has none.
  std::optional<double> probability = std::nullopt;
  int64_t count = 0;          // steps, or pauses
  int64_t period = 0;         // periodic: in steps
  bool is_pause = false;      // periodic: the time lies between steps
  Seconds excess;             // start, periodic, tails, pauses: the mean of one
  double amplitude = 0;       // drift: of a warm step over a cold one, less 1; levels: of the last
  Seconds time_constant;      // drift; 0: it grows steadily, which is no warming
  bool after_pauses = false;  // drift: steps after pauses show it as well; levels: all begin there
  std::vector<StepLevel> levels = {};
};

/// Where the wall time of a training's steps went:
///
///   mean = base + sum of the patterns' costs + rest
///
/// `mean` is wall time over steps, the times between steps included; `base` what an undisturbed,
/// cold step takes; `rest` what scatter leaves. Patterns are disjoint.
struct StepHistory {
  int64_t steps = 0;
  Seconds mean, base, rest;
  Seconds scatter;  // standard deviation of a step around the patterns, outliers left out
  std::vector<StepPattern> patterns = {};

  const StepPattern* find(StepPattern::Kind) const;
  /// Mean of the steps without start, tails and pauses: base, drift and levels.
  Seconds ordinary() const;
};

/// Whether steps that are equal to the nanosecond may be one line of a log, which tells their mean.
enum class StepTimes : uint8_t { of_lines, of_steps };

/// Needs at least 20 steps to see patterns; of fewer only pauses longer than a step are known.
///
/// Scatter is the median absolute difference of neighbours, so that no pattern widens it. Models
/// are compared by the Bayesian information criterion over n (1 - r) / (1 + r) independent steps,
/// where r is the correlation of neighbours, and probability = 1 / (1 + exp(-difference / 2)).
///
///   drift   d(t) = base (1 + a x), dx/dt = (1 - x) / tau while a step runs, -x / tau in pauses
///   levels  jumps of the mean of log d over six lines, of 4 % and four deviations at least
///   period  steps more than three deviations longer lie on one residue class modulo N; by the
///           Chernoff bound against chance over all N, and over residues, of which multiples of N
///           have half the weight and their neighbours a quarter
///
/// Sources: G. Schwarz, "Estimating the dimension of a model", Annals of Statistics 1978; D. Leahy
/// et al., ApJ 1983 (epoch folding).
StepHistory step_history(std::span<const run::StepRecord>, StepTimes = StepTimes::of_lines);

}  // namespace triplepoint::metrics
