// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/answers/document.h"

namespace triplepoint::advise {

/// The point that saves most energy in the plan's scope and is no slower than asked; null where
/// none saves min_reported_gain.
const ClockPoint* chosen_point(const ClockPlan&, double slowdown);

/// What each point of the frontier saves and costs (point 0 is the job as it is); clocks, power and
/// slack of each stage, today and with the chosen point's clocks (null: none was chosen).
answers::Document clock_answer(const spec::Job&, const ClockPlan&, const ClockPoint* chosen);

}  // namespace triplepoint::advise
