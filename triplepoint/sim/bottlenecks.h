// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/run/bottleneck.h"

#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {

/// Who makes the others wait in this step, most seconds first: GPUs with a lower clock than their
/// peers, links with less bandwidth, hosts that launch later. Empty where boards, slots and hosts
/// differ as healthy ones do.
///
///   cost = step - step with the same devices at the median of their peers
/// The second step is simulated, so seconds that hide behind something else cost nothing. Peers are
/// the devices of the same stage, or all if a stage has fewer than four. A device is outside the
/// noise if its phases take at least 4 % and 4 robust standard deviations longer than at its peers'
/// clock. The only evidence is what is slow; why is for metrics to say. The model is left as it
/// was.
std::vector<run::Bottleneck> find_bottlenecks(StepModel&, const CoupledStep&);

}  // namespace triplepoint::sim
