// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/run/prediction_interval.h"

namespace triplepoint::calibrate {

/// What scoring a table needs besides the table. Results do not depend on the number of threads.
struct ScoreContext {
  const spec::Library& library;
  int threads = 1;
  // Called before long work with the number of predictions, and after each of them, from any
  // thread.
  std::function<void(std::size_t)> begin;
  std::function<void()> advance;
};

/// One measured number beside ours.
struct ScoredRow {
  std::string row_id;
  std::string family;    // errors are summed up by it: "nemo-2407-h100", "gemm h200 bf16 large"
  std::string quantity;  // with unit: "step_time_s", "latency_us", "power_w", "temperature_c"
  std::string sweep;     // rows of one sweep are ranked against each other; empty: none
  double measured = 0, predicted = 0;
  std::vector<std::string> notes;  // what had to be assumed to predict the row
  std::optional<metrics::Interval> interval = std::nullopt;  // of 80 in 100; of jobs
  metrics::Regime regime = {};                               // of jobs

  /// 100 (predicted - measured) / measured; temperatures are compared by their difference instead.
  double error_pct() const { return 100 * (predicted - measured) / measured; }
  friend bool operator==(const ScoredRow&, const ScoredRow&) = default;
};

/// A row of the table that cannot be predicted, and why, as a sentence.
struct SkippedRow {
  std::string row_id, reason;
  friend bool operator==(const SkippedRow&, const SkippedRow&) = default;
};

/// Whether jobs that were tried fit in memory, measured and predicted.
struct FitVerdicts {
  int64_t ran_and_fits = 0, failed_and_does_not_fit = 0;
  std::vector<std::string> false_fit;  // rows that ran out of memory, and fit by our estimate
  std::vector<std::string> false_oom;  // rows that ran, and do not fit by our estimate
  friend bool operator==(const FitVerdicts&, const FitVerdicts&) = default;
};

/// The predictions of one table beside its measurements. A row may be scored for several
/// quantities.
struct TableScores {
  std::string table;  // which kind: "jobs", "kernels", "steady-power", ...
  int64_t rows = 0;   // of the table
  std::vector<ScoredRow> scored;
  std::vector<SkippedRow> skipped;
  FitVerdicts fit;  // of tables of jobs

  void skip(std::string row_id, std::string reason) {
    skipped.push_back({std::move(row_id), std::move(reason)});
  }
};

}  // namespace triplepoint::calibrate
