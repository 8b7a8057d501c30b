// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/tables/scores.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::calibrate {

/// Predicts every row of a jobs.csv (job_rows.h); rows of one job are predicted once. Scored is the
/// first quantity that a row has of step_time_s, tokens_per_s_per_gpu, tokens_per_s_total,
/// seqs_per_s_total, tflops_per_gpu and mfu_pct (of the dense bf16 peak), and its memory:
///
///   tokens = global batch x sequence length;  rate = tokens / t;  TFLOP/s by the row's convention
///   / t
///
/// A row that ran and does not fit by our estimate has the prediction 0, which is 100 % off.
Result<TableScores> score_job_table(const CsvTable&, const ScoreContext&);

/// What a table of training runs may have measured of a job.
struct JobPrediction {
  bool fits = true;
  Seconds step_time;  // meaningless where the job does not fit
  // On the fullest GPU: at the peak of what tensors hold; and what the allocator then holds.
  Bytes allocated_peak, reserved_peak;
  // On the first stage, as nanotron's rank 0 prints them: what tensors hold while the optimizer
  // steps, and what the allocator holds.
  Bytes first_step, first_reserved;
};

/// Simulates the job to thermal steady state. A job that cannot run as written is an error with all
/// reasons.
Result<JobPrediction> predict_job(const spec::Job&);

/// The step time that a measured time or rate of the job says; nothing where neither is there.
std::optional<Seconds> measured_step_time(const Measurement&, const spec::Job&);

/// Why that cannot be a step of the job: the products of the model, half of causal attention, take
/// longer at the GPUs' peak. Nothing where they do not, or where no peak is known.
std::optional<std::string> faster_than_peak(const spec::Job&, Seconds step_time);

/// TFLOPs of one step per GPU as a publication counts them ("SEQSEL", "PALM_MFU", ...); nothing for
/// a convention without a formula. Formulas: docs/models/validation.md.
std::optional<double> step_tflop_of_convention(std::string_view convention, const spec::Job&);

/// Measured runs of a place, and what of its tables says nothing of a step's time, with the reason.
struct OwnRuns {
  std::vector<learn::OwnRun> runs;
  std::vector<learn::HeatRun> heat;
  std::vector<SkippedRow> skipped;
  std::vector<SkippedRow> doubts = {};  // runs that teach, though something disturbed them
};

/// Adds the rows of a jobs.csv (job_rows.h).
Result<void> add_own_runs(const CsvTable&, const spec::Library&, OwnRuns&);

}  // namespace triplepoint::calibrate
