// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/score_context.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// Scores a table of inference configurations: power_inference_*.
///
/// A row is predicted as decoding by stack vllm: the mean number of sequences at a time (`batch`,
/// or avg_batch in the notes), each against a cache as long as its task's usual one is in the
/// middle of an answer. The prompts that an engine reads between two passes are not played, so that
/// tokens a second are an upper bound. Attention is split over the GPUs of a replica, experts over
/// as many as the notes say ("ep 8 dp 1"). Quantities: power_w of a GPU; output_tokens_per_s where
/// the row counts output. Rows of one model, machine and task are ranked by their batch.
Result<TableScores> score_inference_table(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
