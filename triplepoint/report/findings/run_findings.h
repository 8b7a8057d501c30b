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

/// "GPU 3 slows the others: 1,008 MHz against 1,850 MHz (power limit, 350 W against 700 W); the
/// step takes 47 % longer, 2.20 s."
std::string pace_sentence(const run::PaceSetter&, Seconds step_time);
/// What to do about it.
std::string pace_advice(const run::PaceSetter&);

/// "GPU 3 draws 157 W on average, above its limit of 105 W: ..." of the GPU farthest above the
/// limit that its lowest clock cannot keep; empty where all keep theirs.
std::string limit_not_kept(const run::Run&, const metrics::Metrics&);

}  // namespace triplepoint::report
