// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/document.h"

namespace triplepoint::app {

/// A measured run or several: a table as of validate, a recording, a log, traces, or a table of
/// temperatures; and the job that it ran where it does not say so.
struct LearnInput {
  std::string file;
  std::optional<std::string> job;
};

/// Learns from all of them, writes FOLDER/calibration.json and FOLDER/report.html, and says what
/// was learned (calibration_answer.h).
Result<answers::Document> learn_from_files(const spec::Library&, const std::vector<LearnInput>&,
                                           const std::string& folder, int threads);

}  // namespace triplepoint::app
