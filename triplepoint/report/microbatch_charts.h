// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// One line per layout over the microbatch sizes it was run with, the paper's figure 13; nothing
/// without a sweep.
std::vector<Figure> microbatch_figures(const Group& group);
std::vector<LegendEntry> microbatch_legend(const Group& group);

}  // namespace triplepoint::report
