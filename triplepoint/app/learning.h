// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/calibrate/jobs/job_scores.h"

namespace triplepoint::app {

/// A measured run or several: a table as of validate, a recording, a log, traces, or a table of
/// temperatures; and the job that it ran where it does not say so.
struct LearnInput {
  std::string file;
  std::optional<std::string> job;
};

/// Learns from all of them, writes FOLDER/calibration.json and FOLDER/report.html, and says what
/// was learned (learning.h).
Result<answers::Document> learn_from_files(const spec::Library&, const std::vector<LearnInput>&,
                                           const std::string& folder, int threads);

/// What a place's own runs taught: how well they are predicted, each coefficient before and after
/// with its spread and who taught it, power, the room, what contradicts, and what to measure next.
answers::Document calibration_answer(const learn::Learned&, const calibrate::OwnRuns&,
                                     const std::string& folder);

/// Of that the coefficients alone: a picture and a table.
answers::Section learned_coefficients(const learn::Calibration&);

}  // namespace triplepoint::app
