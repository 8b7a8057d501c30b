// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// Prices of what a stage does once a step.
PricedEnd price_end(const spec::Job&, const workload::WorkGraph&, const workload::StepWork&);

/// What shows of ops of which some hide behind `cover`:
///   sum of those that do not hide + max(0, sum of those that do - cover)
Seconds exposed_time(const std::vector<PricedOp>&, Seconds cover);
Seconds total_time(const std::vector<PricedOp>&);

}  // namespace triplepoint::sim
