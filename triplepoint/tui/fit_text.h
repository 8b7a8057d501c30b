// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/calibrate/fit_report.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What was fitted and how far off it is. `before`: the last column is the error before the fit.
void print_fits(Console&, const std::vector<calibrate::FitReport>&, bool before);

}  // namespace triplepoint::tui
