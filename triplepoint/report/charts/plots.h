// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

namespace triplepoint::report {

/// Power, temperature, clock and throttling over time, as data for the script of the page: an array
/// of plots, each with the id of its element, its unit, its times and its curves.
///
/// Up to eight devices get a curve each. More are drawn as the mean of all and the band between the
/// lowest and the highest; at most `points` moments, each the mean (or extreme) of what lies
/// between.
Json plots_of(const run::Run& run, std::size_t points = 1200);

}  // namespace triplepoint::report
