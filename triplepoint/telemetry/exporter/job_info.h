// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::telemetry {

/// Labels of one job on this node: ("job", "4711"), ("rank", "3"), ... They become one series,
/// triplepoint_job_info{...} 1, to join with the others by host; no other series carries them.
using JobLabels = std::vector<std::pair<std::string, std::string>>;

/// What the launcher's environment says: job, launcher, rank, local_rank, world_size, and Slurm's
/// job name, user, account and partition. Empty outside of a job.
JobLabels job_of_environment(const Variable&);

/// "job=4711,user=ann": names of letters, digits and _, not beginning with a digit or "__", none
/// twice, and none that the series has already (host).
Result<JobLabels> parse_job(std::string_view text);

/// A file of such texts, one job a line; # begins a comment. A prolog writes it, an epilog empties
/// it. A file that is not there is no job.
Result<std::vector<JobLabels>> read_job_file(const Path&);

}  // namespace triplepoint::telemetry
