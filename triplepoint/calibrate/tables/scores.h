// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/learn/calibration.h"
#include "triplepoint/learn/coefficients.h"
#include "triplepoint/metrics/run/prediction_interval.h"

namespace triplepoint::calibrate {

/// What scoring a table needs besides the table. Results do not depend on the number of threads.
struct ScoreContext {
  const spec::Library& library;
  int threads = 1;
  const learn::Calibration* own = nullptr;  // what a place's own runs taught, of training jobs
  bool sensitivities = false;               // of the time of each training job
  Watch watch = {};
};

/// How the time of a job answers to what may be learned, and what it is like.
struct JobSensitivities {
  learn::LogFactors slopes{};
  learn::Knobs knobs;
  friend bool operator==(const JobSensitivities&, const JobSensitivities&) = default;
};

/// One measured number beside ours.
struct ScoredRow {
  std::string row_id;
  std::string family;    // errors are summed up by it: "nemo-2407-h100", "gemm h200 bf16 large"
  std::string quantity;  // with unit: "step_time_s", "latency_us", "power_w", "temperature_c"
  std::string sweep;     // rows of one sweep are ranked against each other; empty: none
  double measured = 0, predicted = 0;
  std::vector<std::string> notes;  // what had to be assumed to predict the row
  std::optional<metrics::Interval> interval = std::nullopt;      // of 80 in 100; of jobs
  metrics::Regime regime = {};                                   // of jobs
  std::optional<JobSensitivities> sensitivities = std::nullopt;  // where they are asked for

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

/// One row of a table, its cells by the title of their column. A column that the table does not
/// have is as empty as a cell with nothing in it.
class Cells {
 public:
  Cells(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  std::string text(std::string_view title) const {
    const auto column = table_->column(title);
    return column ? std::string(table_->at(row_, *column)) : std::string();
  }
  /// Rows are summed up by it; without a column, the table's own name.
  std::string family() const {
    const std::string given = text("family");
    return given.empty() ? std::filesystem::path(table_->name()).stem().string() : given;
  }
  bool has(std::string_view title) const { return !text(title).empty(); }
  /// Nothing where the cell is empty, or no number.
  std::optional<double> number(std::string_view title) const {
    const auto column = table_->column(title);
    if (!column) return std::nullopt;
    const auto value = table_->number(row_, *column);
    return value ? *value : std::nullopt;
  }
  double number_or(std::string_view title, double otherwise) const {
    return number(title).value_or(otherwise);
  }
  /// Zero where there is no number; what is too large for one becomes 10^15, which nothing has.
  int64_t count(std::string_view title) const {
    constexpr double most = 1e15;
    const double value = number_or(title, 0);
    if (!(std::abs(value) < most)) return value > 0 ? static_cast<int64_t>(most) : 0;
    return static_cast<int64_t>(value);
  }
  /// Does column `skip` hold a reason why the row cannot be predicted?
  bool is_skipped() const { return has("skip"); }
  /// The table's own name of the row, or where it stands.
  std::string id() const {
    const std::string given = text("row_id");
    return given.empty() ? "line " + std::to_string(table_->line(row_)) : given;
  }

 private:
  const CsvTable* table_;
  std::size_t row_;
};

/// GPUs of the library, loaded once each.
class GpuCache {
 public:
  explicit GpuCache(const spec::Library& library) : library_(library) {}
  const Result<spec::Gpu>& gpu(const std::string& name) {
    return get_or_make(gpus_, name, [&] { return spec::load_gpu(library_, name); });
  }

 private:
  const spec::Library& library_;
  std::map<std::string, Result<spec::Gpu>> gpus_;
};

}  // namespace triplepoint::calibrate
