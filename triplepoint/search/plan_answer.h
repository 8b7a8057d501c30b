// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/answers/document.h"
#include "triplepoint/search/plan_outcome.h"

namespace triplepoint::search {

/// Which plan to run, what each of the best reaches and why it is not first; of pages: speed
/// against energy of all, and where a step of each goes.
answers::Document plan_answer(const PlanOutcome&);

}  // namespace triplepoint::search
