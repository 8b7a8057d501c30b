// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/runner.h"

namespace triplepoint::app {

/// What a suite is run on; without any, on the cluster that its jobs name.
struct SuiteMachines {
  std::vector<std::string> clusters;  // to simulate: "NAME" (one node), or "NAME:4" with 4 nodes
  std::vector<std::string> runs;      // folders of .run files: "JOB-1.run", simulated or recorded
};

/// run_study() with the jobs of a suite on the machines, each repeat a row, and their scores. A
/// simulated job runs with the fastest plan at steady state, from a cold machine; each repeat has
/// other boards. Runs are copied into the study; those of no job are said.
Result<StudyResults> run_suite(const Watch&, const spec::Library&, const spec::StudyPlan& suite,
                               const SuiteMachines&, const Path& folder, int threads);

}  // namespace triplepoint::app
