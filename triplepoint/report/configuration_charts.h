// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// Speed, energy, power, temperature and clock of every job of a group: one chart each.
std::vector<Figure> measure_figures(const Group& group);

/// Kernel seconds by class, as the MICRO'25 paper's figures 3 and 10 stack them.
Figure kernel_figure(const Group& group);

/// Memory of each job's fullest stage, against what the device has.
Figure memory_figure(const Group& group);

/// One line per layout over the microbatch sizes it was run with; nothing without a sweep.
std::vector<Figure> microbatch_figures(const Group& group);
std::vector<LegendEntry> microbatch_legend(const Group& group);

/// The colours of variants and of kernel classes.
std::vector<LegendEntry> variant_legend(const Group& group);
std::vector<LegendEntry> kernel_legend();
std::vector<LegendEntry> memory_legend();

}  // namespace triplepoint::report
