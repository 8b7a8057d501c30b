// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/sim/flow_rates.h"
#include "triplepoint/sim/schedule_engine.h"

namespace triplepoint::sim {

/// What flow simulations of one wiring share, one after the other: rates once solved, and room.
struct FlowScratch {
  explicit FlowScratch(const Wiring& wiring)
      : rates(wiring.classes(), wiring.capacities()), in_flight(wiring.classes().size()) {}
  FlowRates rates;
  std::vector<std::vector<int32_t>> in_flight;  // tensors, [class]; empty between simulations
};

/// Runs pipelines that meet on links event by event; by pipeline of the cluster, started.
void simulate_flows(std::span<LinkedPipeline> pipelines, const Wiring& wiring,
                    const Wiring::Cluster& cluster, const LinkObserver& observer,
                    FlowScratch& scratch);

}  // namespace triplepoint::sim
