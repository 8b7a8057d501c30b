// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/advise/place.h"

namespace triplepoint::report {

/// Placements of a job side by side, as one SVG file: step time against the baseline as the sum of
/// its reasons (rank order, imbalance, heat, boards), efficiency, gap between hot and cold devices.
/// Placements that do not fit in memory are named and left empty.
std::string placement_figure(const advise::PlaceResult& result, const std::string& title);

}  // namespace triplepoint::report
