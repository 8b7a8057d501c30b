// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::report {

/// The page of `triplepoint validate`: how far measurements lie from predictions by source, beside
/// the intervals that predictions promise; every row as a point and in a table; the `worst` rows;
/// and what was not predicted.
std::string validation_page(const calibrate::TableScores& all, std::size_t worst);

}  // namespace triplepoint::report
