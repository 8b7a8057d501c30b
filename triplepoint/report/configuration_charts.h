// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/report/bar_chart.h"
#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// One chart each, with a bar per job of the group: the paper's figures 4 and 8.
std::vector<Figure> speed_figures(const Group& group);
std::vector<Figure> heat_figures(const Group& group);  // power, temperature, clock
/// Time below the requested clock, by reason.
Figure throttle_figure(const Group& group);

/// The bar of a job before anything is known of it: its label, and why it has no value.
Bar empty_bar(const StudyRow& row, const StudyRow* above);

/// The colours of variants.
std::vector<LegendEntry> variant_legend(const Group& group);

}  // namespace triplepoint::report
