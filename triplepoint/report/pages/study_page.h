// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// The page of a study: findings, then charts per model and machine, then a temperature map and all
/// jobs. One HTML file that needs no network.
std::string study_page(const Study& study);

}  // namespace triplepoint::report
