// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::metrics {

/// What a job says, by itself, of how far off its prediction may be: features and their levels
/// ({"experts", "moe"}). Features: stack, experts, bits, kernels, nodes, sequence,
/// vendor, task.
using Regime = std::vector<std::pair<std::string, std::string>>;

/// The measured value lies between these for 80 of 100 jobs.
struct Interval {
  double low = 0, high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// How far predictions of training jobs were off, of sources that no coefficient was fitted to
/// (data/calibrations/accuracy.toml, written by lab/make_intervals.py).
///
///   measured in predicted x [low^w, high^w],  w = product of the widening factors
///
/// low, high: 10th and 90th percentile of measured / predicted times where every factor is 1. A
/// rate is the inverse of a time. Holds for step times, rates and memory of pretraining and LoRA.
class PredictionIntervals {
 public:
  static Result<PredictionIntervals> load(const spec::Library&);

  Regime regime_of(const spec::Job&) const;

  // Nothing where no rows were measured: inference, ranks that share cores.
  std::optional<Interval> step_time(const spec::Job&, double predicted) const;
  std::optional<Interval> rate(const spec::Job&, double predicted) const;
  std::optional<Interval> memory(const spec::Job&, double predicted) const;

  /// Share of a GPU's memory to leave free so that 90 of 100 jobs fit which are predicted to:
  /// 1 - 1 / (90th percentile of measured over predicted memory of large Megatron-Core jobs).
  double memory_headroom() const { return 1 - 1 / large_memory_; }

  /// Probability that plan b of a job really takes longer than plan a. What is off for both alike
  /// cancels; sigma: standard deviation of ln(measured / predicted) within a sweep.
  ///
  ///   p = Phi(ln(b / a) / (sqrt(2) sigma))
  double probability_longer(double predicted_b, double predicted_a) const;

  /// Measured jobs that the interval of step times rests on.
  int64_t rows() const { return step_time_.rows; }

 private:
  struct Spread {
    double low = 1, high = 1;
    int64_t rows = 0;
    std::map<std::pair<std::string, std::string>, double> widening;

    Interval around(double predicted, const Regime&) const;
  };

  Spread step_time_, memory_;
  double within_job_ = 0, large_memory_ = 1;
  spec::Library library_;  // which tells of a GPU whether its kernels were measured
};

/// Is it open which of two plans is faster, at this probability that one of them is?
bool is_tie(double probability);

}  // namespace triplepoint::metrics
