// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/clock_plan.h"

namespace triplepoint::advise {

/// What each point of the frontier saves and costs; point 0 is the job as it is.
DataTable clock_frontier_table(const spec::Job&, const ClockPlan&);
/// Clocks, power and slack of each stage, today and with a point's clocks (null: none was chosen).
DataTable clock_stage_table(const spec::Job&, const ClockPlan&, const ClockPoint*);

/// The point that saves most and is no slower than asked; null where there is none.
const ClockPoint* chosen_point(const ClockPlan&, double slowdown);
std::string chosen_clocks_text(const ClockPoint&);
Json clocks_json(const spec::Job&, const ClockPlan&, const DataTable& frontier,
                 const DataTable& stages, const ClockPoint* chosen);

}  // namespace triplepoint::advise
