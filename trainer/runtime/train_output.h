// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/spec/job.h"

#include "trainer/runtime/train.h"

namespace triplepoint::trainer {

/// "step 12/100  loss 6.1815  84.2 ms  12160 tokens/s  MFU 31.2 %", for a person who waits.
std::string step_line(const spec::Job&, const TrainSettings&, const StepResult&,
                      const TrainReport&);

/// Medians, and traffic and memory beside what workload says of them.
std::string summary_text(const spec::Job&, const TrainOutcome&);

/// The same and every step, as one JSON object.
std::string summary_json(const spec::Job&, const TrainOutcome&);

}  // namespace triplepoint::trainer
