// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"

namespace triplepoint::trace {

/// Kineto traces of the jobs that ran in a folder, as NeMo's chakra_profile leaves them:
/// <job id>_kineto/rank-<N>.json.
struct JobTraces {
  Path newest;                     // of the highest job id that left traces
  std::vector<std::string> older;  // names of the other folders, ascending job ids
};

/// Nothing where the folder has no such traces.
std::optional<JobTraces> newest_job_traces(const Path& folder);

}  // namespace triplepoint::trace
