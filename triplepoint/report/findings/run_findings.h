// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

/// What stands out in one run: what the step's time goes into, what limits it, who is hot, what
/// heat and power cost, who others wait for; each with the element of the page that shows why. Only
/// what the run knows.
std::vector<answers::Remark> run_findings(const run::Run&, const metrics::Metrics&);

/// "GPU 3 draws 157 W on average, above its limit of 105 W: ..." of the GPU farthest above the
/// limit that its lowest clock cannot keep; empty where all keep theirs.
std::string limit_not_kept(const run::Run&, const metrics::Metrics&);

}  // namespace triplepoint::report
