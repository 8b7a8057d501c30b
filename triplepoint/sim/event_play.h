// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/sim/pipeline_player.h"
#include "triplepoint/sim/play.h"

namespace triplepoint::sim {

/// Plays pipelines that meet on links event by event; players by pipeline of the cluster, not yet
/// begun.
void play_events(std::span<PipelinePlayer> players, const Wiring& wiring,
                 const Wiring::Cluster& cluster, const LinkObserver& observer);

}  // namespace triplepoint::sim
