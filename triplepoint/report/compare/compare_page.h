// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/report/compare/compare.h"

namespace triplepoint::report {

/// The page of a comparison: what changed in sentences, then as charts, then every number.
std::string compare_page(const Comparison&);
std::string compare_page(const StudyComparison&);

}  // namespace triplepoint::report
