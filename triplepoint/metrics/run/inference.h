// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// Speed of a run that answers instead of training. A run of prefill knows the first two, a run of
/// decode the last two; what is not inference knows none.
///
///   prompt_tokens_per_s      = tokens of a pass / step time
///   time_to_first_token      = step time: until every sequence of the batch has its first token
///   generated_tokens_per_s   = sequences of the batch / step time
///   time_per_output_token    = step time: a pass gives each sequence one token
///
/// Holds for static batches: no sequence joins or leaves between two passes. Source:
/// docs/models/inference.md.
struct InferenceSpeed {
  std::optional<double> prompt_tokens_per_s, generated_tokens_per_s;
  std::optional<Seconds> time_to_first_token, time_per_output_token;
};
InferenceSpeed inference_speed(spec::Task task, const Metrics& metrics);

/// Is the run known to be prefill or decode?
bool is_inference(const run::Run&);

}  // namespace triplepoint::metrics
