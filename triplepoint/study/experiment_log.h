// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/run/run.h"

#include "triplepoint/trace/logs/training_log.h"

namespace triplepoint::study {

/// The log of a training (*.out, *.err, *.log, *.txt) that lies beside its samples and traces.
struct ExperimentLog {
  std::string file;  // its name
  trace::TrainingLog log;
  std::vector<std::string> others;  // names of more logs with steps
};

/// Whether the file is a log with steps.
bool is_training_log(const Path& file);

/// Whether a file in the folder is named like a log.
bool has_logs(const Path& folder);

/// Of several logs the one that names the job of the newest traces, else the one with most steps;
/// nothing where none has a step.
std::optional<ExperimentLog> log_in(const Path& folder);

/// The name of a log that says that the job ran out of memory.
std::optional<std::string> log_without_memory(const Path& folder);

/// The log's steps that lie in the recorded window become the run's steps (trace::lay_steps); where
/// they cannot be laid there, the run's steps stay, and a note says why. Either way the fact
/// "logged_step_time" is the log's mean step time.
void join_log(run::Run&, const ExperimentLog&);

}  // namespace triplepoint::study
