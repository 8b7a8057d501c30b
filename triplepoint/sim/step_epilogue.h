// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {

/// Estimates of what a stage does once a step.
EpilogueEstimate estimate_epilogue(const spec::Job&, const workload::WorkGraph&,
                                   const workload::StepWork&);

/// What shows of ops of which some hide behind `cover`:
///   sum of those that do not hide + max(0, sum of those that do - cover)
Seconds exposed_time(const std::vector<OpEstimate>&, Seconds cover);
Seconds total_time(const std::vector<OpEstimate>&);

}  // namespace triplepoint::sim
