// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/logs/printed_step.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// What the logs of a training say. One entry per step, ascending; what several ranks print is
/// there once.
struct TrainingLog {
  std::string framework;  // "megatron-lm", "nemo", ...; empty: no step line was found
  std::optional<int64_t> sequence_length;
  std::vector<LoggedStep> steps;
  int64_t restarts = 0;
  Seconds set_back;      // the most that the log's clock was; stamps after it are moved on
  int64_t unread = 0;    // lines of steps without a plausible number or time
  int64_t bars = 0;      // progress bars that may be the training's
  int64_t repeated = 0;  // step lines about a step that was known: other ranks, progress bars
  bool has_elapsed_times = false;  // taken for stamps
  std::vector<std::string> notes;  // of its clock and dates
  bool truncated = false;
};

/// Reads the log of Megatron-LM, NeMo (progress bar or lines), torchtitan, DeepSpeed, MaxText,
/// MLPerf, nanotron or OLMo-core, progress bars and ends of Hugging Face's Trainer and Lightning,
/// loops that say the seconds of a step in words, and scalars of TensorBoard as CSV. Colours,
/// carriage returns, prefixes of launchers and ranks, and several ranks' words on one line do not
/// matter.
///
/// Where a line has no step time, it is the difference of two stamps; of stamps in whole seconds
/// the mean over twenty seconds.
Result<TrainingLog> parse_training_log(Input&);

/// What a log cannot give, and the commands that show what it has.
std::string use_of_training_log(const std::string& file);

bool looks_like_training_log(std::string_view head);
/// One span per step on rank 0. Where the batch changes now and then, the steps are those of the
/// longest stretch of one batch, and a note says so.
Result<Trace> read_training_log(Input&, const ReadOptions&);

}  // namespace triplepoint::trace
