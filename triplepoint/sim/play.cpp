// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/play.h"

#include "triplepoint/base/expect.h"

#include "triplepoint/sim/event_play.h"
#include "triplepoint/sim/pipeline_player.h"

namespace triplepoint::sim {

std::vector<std::vector<PlayedStage>> play(std::span<const std::vector<StageTimes>> pipelines,
                                           const Wiring& wiring, const PlayRules& rules,
                                           const LinkObserver& observer) {
  TPT_EXPECT(pipelines.size() == wiring.num_pipelines());
  std::vector<std::vector<PlayedStage>> played(pipelines.size());
  for (const Wiring::Cluster& cluster : wiring.clusters()) {
    std::vector<PipelinePlayer> players;
    for (const size_t p : cluster.pipelines)
      players.emplace_back(pipelines[p], wiring.wires(p), wiring.mode(), rules);
    if (cluster.has_flows)
      play_events(players, wiring, cluster, observer);
    else
      players.front().begin();
    for (size_t i = 0; i < players.size(); ++i)
      played[cluster.pipelines[i]] = players[i].take();
  }
  return played;
}

}  // namespace triplepoint::sim
