// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Scores GPUs that serve requests: rows of jobs that decode (job_rows.h) with prompt_tokens and
/// answer_tokens of a request, sequences at a time, power_w of a GPU, output_tokens_per_s.
///
/// A row is predicted as an engine's round (inference_scores.h): a pass over all sequences, each
/// against its cache, and the prompts that are read meanwhile. Attention is split over the GPUs of
/// a replica. Quantities: power_w; output_tokens_per_s.
Result<TableScores> score_inference(const CsvTable&, const ScoreContext&);

/// Mean lengths of a benchmark's requests, in tokens.
struct Requests {
  double prompt = 0, answer = 0;
};

/// An engine that serves all the time.
struct Serving {
  double prefill_tokens = 0;  // of prompts read at once
  Seconds sequence_time;      // of each sequence in each pass
  double busy_share = 0;      // of sequence_time
};
void visit_fields(auto& visit, Serving& serving) {
  visit("prefill_tokens", serving.prefill_tokens, spec::Need::required);
  visit("sequence_time", serving.sequence_time, spec::Need::required);
  visit("busy_share", serving.busy_share, spec::Need::required);
}

/// data/calibrations/serving.toml.
Result<Serving> load_serving(const spec::Library&);

/// Mean power of a GPU over a time.
struct PowerInterval {
  Seconds time;
  Watts power;
};

/// What the simulator predicts of an engine at work.
struct ServedBatch {
  double sequences = 1, replicas = 1;
  PowerInterval decode;        // a pass over all sequences
  PowerInterval prompt_token;  // a token of a prompt, in passes of prefill_tokens
  Watts rest;                  // of a GPU between passes
};

/// One token for each of n sequences, while others come and go: as many prompts are read as answers
/// end.
///
///   t = t_decode + n prompt/answer t_prompt + n sequence_time
///   P t = P_decode t_decode + n prompt/answer t_prompt P_prompt
///       + n sequence_time (busy_share P_decode + (1 - busy_share) P_rest)
///
/// sequence_time: what schedulers, samplers and detokenizers do for each sequence; busy_share of it
/// on the GPU. n counts the sequences of one replica in the last term.
/// Holds for engines that are never short of requests; prompts that share a pass with tokens spare
/// themselves the reading of weights, which is left out. Source: docs/models/inference.md.
PowerInterval serving_round(const Serving&, const Requests&, const ServedBatch&);

}  // namespace triplepoint::calibrate
