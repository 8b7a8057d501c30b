// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::telemetry {

/// A process of a training with its place in the job.
struct RankProcess {
  int64_t pid = 0;
  LaunchEnvironment launch;
  std::vector<int64_t> all_pids = {};  // its own and those of its helpers
};

/// Whether this process sees processes by the numbers that drivers use: not inside a container.
bool sees_all_processes(const Path& proc = "/proc");

/// Ranks among the processes that `pid` has started, itself included, by the environment that each
/// was started with: the workers of `record -- torchrun ...`. One process per rank: the first,
/// which has started the others. Processes that only inherit the place of the recorder (`own`) are
/// no news.
std::vector<RankProcess> ranks_below(int64_t pid, const LaunchEnvironment& own,
                                     const Path& proc = "/proc");

}  // namespace triplepoint::telemetry
