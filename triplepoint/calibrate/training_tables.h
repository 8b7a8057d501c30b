// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/score_context.h"
#include "triplepoint/calibrate/table_scores.h"
#include "triplepoint/calibrate/training_row.h"

namespace triplepoint::calibrate {

/// A row that was tried, and how it ended.
struct TriedRow {
  TrainingRow row;
  std::string sweep;
  bool ran = true;                                   // false: it ran out of memory
  std::optional<double> standing_gib, reserved_gib;  // more that was measured of its memory
};

/// Predicts every row that can be expressed. Scored is the first quantity the row has of
/// step_time_s, tokens_per_s_per_gpu, tokens_per_s_total, seqs_per_s_total and tflops_per_gpu (by
/// the row's own convention), and its memory. A row that ran and does not fit by our estimate has
/// the prediction 0, which is 100 % off.
/// `change` may alter a job before it is played.
using JobChange = std::function<void(spec::Job&)>;
TableScores score_rows(const std::vector<TriedRow>& rows, const ScoreContext&,
                       const JobChange& change = {});

/// Rows of a training table, with the sweeps that they belong to.
std::vector<TriedRow> tried_rows(std::vector<TrainingRow>);

/// The columns of train_perf_calibration.csv.
Result<TableScores> score_training_table(const CsvTable&, const ScoreContext&);

/// vTrain's ground truth: hidden, heads, layers, seq, gbs, mbs, tp, dp, pp, step_time_s. Source:
/// VIA-Research/vTrain, Megatron-DeepSpeed, fp16, GPT with a vocabulary of 51200.
Result<TableScores> score_vtrain_table(const CsvTable&, const ScoreContext&);

/// The Ultra-Scale sweep of nanotron with its own column names: nodes, dp, pp, tp, mbs,
/// batch_accum, zero_stage, hidden_size, num_layers, num_heads, interm_dim, vocab_size, status,
/// tok/s/gpu.
Result<TableScores> score_hf_sweep(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
