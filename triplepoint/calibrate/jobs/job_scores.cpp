// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/job_scores.h"

#include <map>
#include <optional>

#include "triplepoint/base/parallel.h"

#include "triplepoint/calibrate/jobs/flops_convention.h"
#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/jobs/predict_job.h"
#include "triplepoint/metrics/run/prediction_interval.h"

namespace triplepoint::calibrate {
namespace {

using metrics::Interval;
using metrics::PredictionIntervals;

/// What is predicted once for all rows of one job.
struct PredictedJob {
  const JobRow* row = nullptr;  // the first of them
  spec::Job job;
  JobPrediction prediction;
  std::vector<std::string> notes;  // choices of the memory model
  std::string fault;
};

/// A reason without "jobs.csv:7: " before it: the row has a name, and rows of one job share it.
std::string without_place(std::string reason, const std::string& file) {
  if (!reason.starts_with(file + ":")) return reason;
  return reason.substr(reason.find(": ", file.size()) + 2);
}

void predict(PredictedJob& predicted, const std::string& file, const spec::Library& library) {
  auto job = job_of(*predicted.row, file, library, predicted.notes);
  if (!job) {
    predicted.fault = without_place(job.error().what, file);
    return;
  }
  predicted.job = *std::move(job);
  const auto prediction = predict_job(predicted.job);
  if (prediction)
    predicted.prediction = *prediction;
  else
    predicted.fault = prediction.error().what;
}

struct Quantity {
  const char* name;
  double measured, predicted;
};

/// The first quantity that was measured of the job's speed, and what it is for a step of this time.
std::optional<Quantity> speed_of(const Measurement& measured, const spec::Job& job,
                                 Seconds step_time) {
  const double seconds = step_time / unit::s;
  const auto sequences = static_cast<double>(job.plan.global_batch_size);
  const double tokens = sequences * static_cast<double>(job.model.sequence_length);
  const auto gpus = static_cast<double>(job.world_size());
  if (measured.step_time_s) return Quantity{"step_time_s", *measured.step_time_s, seconds};
  if (measured.tokens_per_s_per_gpu)
    return Quantity{"tokens_per_s_per_gpu", *measured.tokens_per_s_per_gpu,
                    tokens / seconds / gpus};
  if (measured.tokens_per_s_total)
    return Quantity{"tokens_per_s_total", *measured.tokens_per_s_total, tokens / seconds};
  if (measured.seqs_per_s_total)
    return Quantity{"seqs_per_s_total", *measured.seqs_per_s_total, sequences / seconds};
  const auto tflop = step_tflop_of_convention(measured.convention, job);
  if (!tflop) return std::nullopt;
  if (measured.tflops_per_gpu)
    return Quantity{"tflops_per_gpu", *measured.tflops_per_gpu, *tflop / seconds};
  const auto peak = job.cluster.gpu.peak_bf16;
  if (!measured.mfu_pct || !peak) return std::nullopt;
  return Quantity{"mfu_pct", *measured.mfu_pct,
                  100 * *tflop / seconds / (*peak / (unit::TFLOP / unit::s))};
}

/// Adds the scores of one row.
class RowScorer {
 public:
  RowScorer(const JobRow& row, const PredictedJob& predicted, const PredictionIntervals& intervals,
            std::vector<ScoredRow>& scored)
      : row_(row), predicted_(predicted), intervals_(intervals), scored_(scored) {
    notes_ = row.assumptions;
    notes_.insert(notes_.end(), predicted.notes.begin(), predicted.notes.end());
    if (!predicted.prediction.fits)
      notes_.insert(notes_.begin(), "does not fit in memory by our estimate");
  }

  void score() {
    const JobPrediction& prediction = predicted_.prediction;
    if (const auto speed = speed_of(row_.measured, predicted_.job, prediction.step_time))
      score_speed(*speed);
    const Measurement& measured = row_.measured;
    score_memory(
        "mem_gib", measured.memory_gib,
        measured.memory_is_reserved ? prediction.reserved_peak : prediction.allocated_peak);
    score_memory("mem_standing_gib", measured.standing_gib, prediction.first_step);
    score_memory("mem_reserved_gib", measured.reserved_gib, prediction.first_reserved);
  }

 private:
  void score_speed(Quantity speed) {
    const spec::Job& job = predicted_.job;
    if (!predicted_.prediction.fits) return add(speed.name, speed.measured, 0, {}, row_.sweep);
    const bool is_time = row_.measured.step_time_s.has_value();
    add(speed.name, speed.measured, speed.predicted,
        is_time ? intervals_.step_time(job, speed.predicted)
                : intervals_.rate(job, speed.predicted),
        row_.sweep);
  }

  void score_memory(const char* name, const std::optional<double>& measured, Bytes predicted) {
    const double gib = predicted / unit::GiB;
    if (measured) add(name, *measured, gib, intervals_.memory(predicted_.job, gib), {});
  }

  void add(const char* quantity, double measured, double predicted,
           std::optional<Interval> interval, std::string sweep) {
    scored_.push_back({.row_id = row_.row_id,
                       .family = row_.family,
                       .quantity = quantity,
                       .sweep = std::move(sweep),
                       .measured = measured,
                       .predicted = predicted,
                       .notes = notes_,
                       .interval = interval,
                       .regime = intervals_.regime_of(predicted_.job)});
  }

  const JobRow& row_;
  const PredictedJob& predicted_;
  const PredictionIntervals& intervals_;
  std::vector<ScoredRow>& scored_;
  std::vector<std::string> notes_;
};

void count_verdict(const JobRow& row, bool fits, FitVerdicts& fit) {
  if (row.measured.ran)
    fits ? void(++fit.ran_and_fits) : fit.false_oom.push_back(row.row_id);
  else
    fits ? fit.false_fit.push_back(row.row_id) : void(++fit.failed_and_does_not_fit);
}

bool compares(const JobRow& row, const spec::Job& job) {
  const Measurement& measured = row.measured;
  return !measured.ran || speed_of(measured, job, 1 * unit::s) || measured.memory_gib ||
         measured.standing_gib || measured.reserved_gib;
}

void score_row(const JobRow& row, const PredictedJob& predicted,
               const PredictionIntervals& intervals, TableScores& scores) {
  const std::string& fault = row.fault.empty() ? predicted.fault : row.fault;
  if (!fault.empty()) {
    scores.skipped.push_back({row.row_id, fault});
  } else if (!compares(row, predicted.job)) {
    scores.skipped.push_back(
        {row.row_id,
         "no measured value can be compared (there is neither a time, a rate, TFLOP/s by a known "
         "convention, nor memory)"});
  } else {
    count_verdict(row, predicted.prediction.fits, scores.fit);
    if (row.measured.ran) RowScorer(row, predicted, intervals, scores.scored).score();
  }
}

}  // namespace

Result<TableScores> score_job_table(const CsvTable& table, const ScoreContext& context) {
  const std::vector<JobRow> rows = TPT_TRY(read_job_rows(table));
  const PredictionIntervals intervals = TPT_TRY(PredictionIntervals::load(context.library));
  std::map<std::string_view, std::size_t> places;
  std::vector<PredictedJob> jobs;
  for (const JobRow& row : rows)
    if (row.fault.empty() && places.emplace(row.text, jobs.size()).second)
      jobs.push_back({.row = &row, .job = {}, .prediction = {}, .notes = {}, .fault = {}});
  if (context.begin) context.begin(jobs.size());
  parallel_for(jobs.size(), context.threads, [&](std::size_t i) {
    predict(jobs[i], table.name(), context.library);
    if (context.advance) context.advance();
  });
  TableScores scores{.table = "jobs", .rows = static_cast<int64_t>(rows.size())};
  const PredictedJob none;
  for (const JobRow& row : rows)
    score_row(row, row.fault.empty() ? jobs[places.at(row.text)] : none, intervals, scores);
  return scores;
}

}  // namespace triplepoint::calibrate
