// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Scores GPUs that serve requests: rows of jobs that decode (job_rows.h) with prompt_tokens and
/// answer_tokens of a request, sequences at a time, power_w of a GPU, output_tokens_per_s.
///
/// A row is predicted as an engine's round (serving.h): a pass over all sequences, each against its
/// cache, and the prompts that are read meanwhile. Attention is split over the GPUs of a replica.
/// Quantities: power_w; output_tokens_per_s.
Result<TableScores> score_inference(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
