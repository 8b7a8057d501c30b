// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/sim/flow_rates.h"
#include "triplepoint/sim/pipeline_player.h"
#include "triplepoint/sim/play.h"

namespace triplepoint::sim {

/// What event plays of one wiring share, one after the other: rates once solved, and room.
struct FlowScratch {
  explicit FlowScratch(const Wiring& wiring)
      : rates(wiring.classes(), wiring.capacities()), in_flight(wiring.classes().size()) {}
  FlowRates rates;
  std::vector<std::vector<int32_t>> in_flight;  // tensors, [class]; empty between plays
};

/// Plays pipelines that meet on links event by event; players by pipeline of the cluster, not yet
/// begun.
void play_events(std::span<PipelinePlayer> players, const Wiring& wiring,
                 const Wiring::Cluster& cluster, const LinkObserver& observer,
                 FlowScratch& scratch);

}  // namespace triplepoint::sim
