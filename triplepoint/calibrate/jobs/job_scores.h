// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

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

}  // namespace triplepoint::calibrate
