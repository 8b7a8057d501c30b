// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// Kernel seconds by class, as the MICRO'25 paper's figures 3 and 10 stack them.
Figure kernel_figure(const Group& group);
/// The same by pipeline stage, one job per layout: the paper's figure 15. No bars, no figure.
std::vector<Figure> stage_figures(const Group& group);
/// Memory of each job's fullest stage, against what the device has.
Figure memory_figure(const Group& group);

}  // namespace triplepoint::report
