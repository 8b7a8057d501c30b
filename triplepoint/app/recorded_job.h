// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

namespace triplepoint::app {

/// Writes into a recording what its job says: the job itself, the flops of a step, the stage of
/// each rank's spans, and what spans are that bear the names of the job's operations (class,
/// collective, group). Ranks that are processes on the cores of one machine become its devices,
/// which have a rank and no readings. Spans that are one collective are told, and with them how
/// long each rank waited for the last; unless marks were lost. Nothing that was measured changes.
void describe_with_job(run::Run& recording, const spec::Job& job);

/// Writes into a recording what triplepoint-train says at its end (trainer/runtime/train_output.h):
/// the memory of each stage at its peak, the rate of products that was measured before the first
/// step as the peak of MFU, bytes moved per group and collective, the first and the last loss. The
/// error says what is wrong with the report; the recording is then as it was.
Result<void> add_trainer_report(run::Run& recording, const std::string& report);

/// The same as describe_with_job, in its file.
Result<void> describe_recording(const Path& file, const spec::Job& job);

}  // namespace triplepoint::app
