// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/report/compare/compare.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What changed, in sentences, and the numbers side by side; `all`: also what is seldom looked at.
void print_comparison(Console&, const report::Comparison&, bool all);
void print_comparison(Console&, const report::StudyComparison&, bool all);

}  // namespace triplepoint::tui
