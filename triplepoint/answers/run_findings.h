// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

/// One sentence about a run, with the element of the page that shows why.
struct RunFinding {
  std::string text, anchor;
};

/// What stands out in one run: what the step's time goes into, what limits it, who is hot, what
/// heat and power cost, who others wait for, where the energy went. Only what the run knows.
std::vector<RunFinding> run_findings(const run::Run&, const metrics::Metrics&);

/// "GPU 3 draws 157 W on average, above its limit of 105 W: ..." of the GPU farthest above the
/// limit that its lowest clock cannot keep; empty where all keep theirs.
std::string limit_not_kept(const run::Run&, const metrics::Metrics&);

}  // namespace triplepoint::report
