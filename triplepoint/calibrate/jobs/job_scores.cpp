// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/job_scores.h"

#include <cmath>
#include <map>
#include <string>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/text.h"

#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::calibrate {
namespace {

using metrics::Interval;
using metrics::PredictionIntervals;

/// What is predicted once for all rows of one job.
struct PredictedJob {
  const JobRow* row = nullptr;  // the first of them
  spec::Job job;
  JobPrediction prediction;
  std::optional<JobSensitivities> sensitivities = std::nullopt;
  std::optional<double> interval_factor = std::nullopt;  // where own runs taught it
  std::vector<std::string> notes;                        // choices of the memory model
  std::string fault;
};

/// Reasons without "jobs.csv:7: " before each: the row has a name, and rows of one job share them.
std::string without_place(std::string_view reasons, const std::string& file) {
  std::string all;
  for (const std::string_view line : lines_of(reasons)) {
    const bool placed = line.starts_with(file + ":");
    all += all.empty() ? "" : "; ";
    all += placed ? line.substr(line.find(": ", file.size()) + 2) : line;
  }
  return all;
}

void predict(PredictedJob& predicted, const std::string& file, const ScoreContext& context) {
  auto job = job_of(*predicted.row, file, context.library, predicted.notes);
  if (!job) {
    predicted.fault = without_place(job.error().what, file);
    return;
  }
  predicted.job = *std::move(job);
  if (context.own) predicted.job = context.own->applied(predicted.job);
  const auto prediction = predict_job(predicted.job);
  if (!prediction) {
    predicted.fault = prediction.error().what;
    return;
  }
  predicted.prediction = *prediction;
  if (!prediction->fits) return;
  const double seconds = prediction->step_time / unit::s;
  if (context.own && context.own->knows(predicted.job))
    predicted.interval_factor = context.own->interval_factor(predicted.job, seconds);
  if (context.sensitivities)
    predicted.sensitivities = {learn::sensitivities(predicted.job, std::log(seconds)),
                               learn::knobs_of(predicted.job)};
}

struct Quantity {
  const char* name;
  double measured, predicted;
};

/// The first quantity that was measured of the job's speed, and what it is for a step of this time.
std::optional<Quantity> speed_of(const Measurement& measured, const spec::Job& job,
                                 Seconds step_time) {
  const double seconds = step_time / unit::s;
  const auto sequences = as_real(job.plan.global_batch_size);
  const double tokens = sequences * as_real(job.model.sequence_length);
  const auto gpus = as_real(job.world_size());
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
    const auto interval = predicted_.interval_factor ? learned_interval(speed.predicted)
                          : is_time                  ? intervals_.step_time(job, speed.predicted)
                                                     : intervals_.rate(job, speed.predicted);
    add(speed.name, speed.measured, speed.predicted, interval, row_.sweep);
  }

  std::optional<Interval> learned_interval(double predicted) const {
    return Interval{predicted / *predicted_.interval_factor,
                    predicted * *predicted_.interval_factor};
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
                       .regime = intervals_.regime_of(predicted_.job),
                       .sensitivities = predicted_.sensitivities});
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

std::optional<std::string> impossible_time(const JobRow& row, const spec::Job& job) {
  const auto time = measured_step_time(row.measured, job);
  return row.measured.ran && time ? faster_than_peak(job, *time) : std::nullopt;
}

void score_row(const JobRow& row, const PredictedJob& predicted,
               const PredictionIntervals& intervals, TableScores& scores) {
  const std::string& fault = row.fault.empty() ? predicted.fault : row.fault;
  if (!fault.empty()) {
    scores.skipped.push_back({row.row_id, fault});
  } else if (const auto impossible = impossible_time(row, predicted.job)) {
    scores.skipped.push_back({row.row_id, *impossible});
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

void take_memory(const workload::StageMemory& stage, JobPrediction& prediction) {
  prediction.allocated_peak = stage.total() - stage.reserve;
  prediction.reserved_peak = stage.reserved;
}

void take_first_stage(const workload::StageMemory& stage, JobPrediction& prediction) {
  prediction.first_step = stage.step;
  prediction.first_reserved = stage.reserved;
}

}  // namespace

std::optional<Seconds> measured_step_time(const Measurement& measured, const spec::Job& job) {
  const auto of_one_second = speed_of(measured, job, 1 * unit::s);
  if (!of_one_second) return std::nullopt;
  if (measured.step_time_s) return *measured.step_time_s * unit::s;
  return of_one_second->predicted / of_one_second->measured * unit::s;
}

std::optional<std::string> faster_than_peak(const spec::Job& job, Seconds step_time) {
  const auto peak = job.cluster.gpu.peak(job.plan.precision);
  if (!peak || job.cluster.shared_cores > 0) return std::nullopt;
  const workload::StepFlops flops = workload::count_step_flops(job);
  const Seconds least = (flops.model - 0.5 * flops.core) / (*peak * as_real(job.world_size()));
  if (step_time >= least) return std::nullopt;
  return fmt::format(
      "a step of {} s is no step of this job (its products alone take {} s at the peak of {} {}); "
      "check the job and the unit",
      significant(step_time / unit::s), significant(least / unit::s), job.world_size(),
      job.cluster.gpu.name);
}

Result<TableScores> score_job_table(const CsvTable& table, const ScoreContext& context) {
  const std::vector<JobRow> rows = TPT_TRY(read_job_rows(table));
  const PredictionIntervals intervals = TPT_TRY(PredictionIntervals::load(context.library));
  std::map<std::string_view, std::size_t> places;
  std::vector<PredictedJob> jobs;
  for (const JobRow& row : rows)
    if (row.fault.empty() && places.emplace(row.text, jobs.size()).second)
      jobs.push_back({.row = &row});
  context.watch.begin("Predicting", jobs.size());
  parallel_for(jobs.size(), context.threads, [&](std::size_t i) {
    predict(jobs[i], table.name(), context);
    context.watch.advance();
  });
  TableScores scores{.table = "jobs", .rows = static_cast<int64_t>(rows.size())};
  const PredictedJob none;
  for (const JobRow& row : rows)
    score_row(row, row.fault.empty() ? jobs[places.at(row.text)] : none, intervals, scores);
  return scores;
}

Result<JobPrediction> predict_job(const spec::Job& job) {
  TPT_TRY(require_runnable(job));
  JobPrediction prediction;
  const workload::MemoryVerdict verdict = workload::estimate_memory(job);
  take_memory(verdict.stages[as_size(verdict.worst_stage)], prediction);
  take_first_stage(verdict.stages.front(), prediction);
  prediction.fits = verdict.fits();
  if (!prediction.fits) return prediction;
  prediction.step_time = sim::steady_step_time(job);
  return prediction;
}

namespace {

/// What the formulas are written in, one sequence at a time.
struct Shape {
  double layers, hidden, heads, query_groups, ffn, vocabulary, length, parameters, active;
};

Shape shape_of(const spec::Model& model) {
  const spec::ParameterCount parameters = spec::count_parameters(model);
  return {.layers = as_real(model.num_layers),
          .hidden = as_real(model.hidden_size),
          .heads = as_real(model.num_attention_heads),
          .query_groups = as_real(model.num_query_groups),
          .ffn = as_real(model.ffn_hidden_size),
          .vocabulary = as_real(model.vocabulary_size),
          .length = as_real(model.sequence_length),
          .parameters = parameters.total(),
          .active = parameters.active()};
}

/// 72 s l h^2 (1 + s/6h + V/12lh), the whole square of attention.
double classic(const Shape& m) {
  return 72 * m.length * m.layers * m.hidden * m.hidden *
         (1 + m.length / (6 * m.hidden) + m.vocabulary / (12 * m.layers * m.hidden));
}

/// 96 s l h^2 (1 + s/6h + V/16lh): the forward pass twice.
double with_recompute(const Shape& m) {
  return 96 * m.length * m.layers * m.hidden * m.hidden *
         (1 + m.length / (6 * m.hidden) + m.vocabulary / (16 * m.layers * m.hidden));
}

double of_dgxc(const Shape& m, spec::Activation activation) {
  const double h2 = m.hidden * m.hidden;
  if (activation != spec::Activation::swiglu)
    return m.length * (24 * m.layers * h2 + 12 * m.layers * m.hidden * m.length +
                       48 * m.layers * h2 + 6 * m.vocabulary * m.hidden);
  return m.length * (12 * m.layers * h2 * (1 + m.query_groups / m.heads + m.length / m.hidden) +
                     18 * m.layers * m.ffn * m.hidden + 6 * m.vocabulary * m.hidden);
}

/// 6 N s + 12 l h s^2: PaLM's model FLOPs.
double of_palm(const Shape& m) {
  return 6 * m.active * m.length + 12 * m.layers * m.hidden * m.length * m.length;
}

std::optional<double> flop_of_sequence(std::string_view conv, const spec::Job& job) {
  const Shape m = shape_of(job.model);
  if (conv == "SC21_HW") return with_recompute(m);
  if (conv == "BLOOM_OLD") return 8 * m.parameters * m.length;
  if (conv == "SEQSEL") return classic(m);
  if (conv == "DGXC") return of_dgxc(m, job.model.activation);
  if (conv == "MPT" || conv == "TT" || conv == "PALM_MFU" || conv == "LLAMA3") return of_palm(m);
  if (conv == "N6") return 6 * m.active * m.length;
  if (conv == "MCORE_MODEL" || conv == "NEMO_MODEL" || conv == "MCORE_CAUSAL") {
    const workload::StepFlops flops = workload::count_step_flops(job);
    const Flops counted = conv == "MCORE_CAUSAL" ? flops.model - 0.5 * flops.core : flops.model;
    return counted / unit::FLOP / as_real(job.plan.global_batch_size);
  }
  return std::nullopt;
}

void add_row(const JobRow& row, const std::string& file, const spec::Library& library,
             OwnRuns& own) {
  const auto skip = [&](std::string reason) {
    own.skipped.push_back({row.row_id, std::move(reason)});
  };
  if (!row.fault.empty()) return skip(row.fault);
  if (!row.measured.ran) return skip("it ran out of memory, so no step of it was measured");
  std::vector<std::string> notes;
  auto job = job_of(row, file, library, notes);
  if (!job) return skip(job.error().what);
  const auto time = measured_step_time(row.measured, *job);
  if (!time) return skip("there is neither a time, a rate, nor TFLOP/s by a known convention");
  if (auto impossible = faster_than_peak(*job, *time)) return skip(*std::move(impossible));
  own.runs.push_back({.name = row.row_id, .job = *std::move(job), .seconds = *time / unit::s});
}

}  // namespace

std::optional<double> step_tflop_of_convention(std::string_view convention, const spec::Job& job) {
  const auto flop = flop_of_sequence(convention, job);
  if (!flop) return std::nullopt;
  return *flop * as_real(job.plan.global_batch_size) / as_real(job.world_size()) / 1e12;
}

Result<void> add_own_runs(const CsvTable& table, const spec::Library& library, OwnRuns& own) {
  for (const JobRow& row : TPT_TRY(read_job_rows(table)))
    add_row(row, table.name(), library, own);
  return {};
}

}  // namespace triplepoint::calibrate
