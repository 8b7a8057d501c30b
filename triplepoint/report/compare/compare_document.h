// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/answers/document.h"
#include "triplepoint/report/compare/compare.h"

namespace triplepoint::report {

/// What changed in sentences, then as charts, then number by number. `all`: also the numbers that
/// are seldom looked at, and every job of studies.
answers::Document comparison_document(const Comparison&, bool all);
answers::Document comparison_document(const StudyComparison&, bool all);

}  // namespace triplepoint::report
