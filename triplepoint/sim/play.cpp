// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/play.h"

#include <algorithm>
#include <optional>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/event_play.h"
#include "triplepoint/sim/pipeline_player.h"

namespace triplepoint::sim {
namespace {

/// Plays clusters; a replica that equals the one before it is not played again.
class ClusterPlayer {
 public:
  ClusterPlayer(std::span<const std::vector<StageTimes>> pipelines, const Wiring& wiring,
                const PlayRules& rules, std::span<std::vector<PlayedStage>> played)
      : pipelines_(pipelines), wiring_(wiring), rules_(rules), played_(played) {}

  void play(const Wiring::Cluster& cluster, const LinkObserver& observer) {
    if (cluster.has_flows)
      play_together(cluster, observer);
    else
      play_alone(cluster.pipelines.front());
  }

 private:
  void play_alone(size_t p) {
    if (last_ && are_equal(p, *last_)) {
      played_[p] = played_[*last_];
    } else {
      PipelinePlayer player = player_of(p);
      player.begin();
      played_[p] = player.take();
    }
    last_ = p;
  }

  void play_together(const Wiring::Cluster& cluster, const LinkObserver& observer) {
    std::vector<PipelinePlayer> players;
    players.reserve(cluster.pipelines.size());
    for (const size_t p : cluster.pipelines)
      players.push_back(player_of(p));
    if (!scratch_) scratch_.emplace(wiring_);
    play_events(players, wiring_, cluster, observer, *scratch_);
    for (size_t i = 0; i < players.size(); ++i)
      played_[cluster.pipelines[i]] = players[i].take();
  }

  PipelinePlayer player_of(size_t p) const {
    return {pipelines_[p], wiring_.wires(p), wiring_.mode(), rules_};
  }
  bool are_equal(size_t a, size_t b) const {
    return pipelines_[a] == pipelines_[b] && std::ranges::equal(wiring_.wires(a), wiring_.wires(b));
  }

  std::span<const std::vector<StageTimes>> pipelines_;
  const Wiring& wiring_;
  const PlayRules& rules_;
  std::span<std::vector<PlayedStage>> played_;
  std::optional<size_t> last_;
  std::optional<FlowScratch> scratch_;
};

}  // namespace

std::vector<std::vector<PlayedStage>> play(std::span<const std::vector<StageTimes>> pipelines,
                                           const Wiring& wiring, const PlayRules& rules,
                                           const LinkObserver& observer) {
  TPT_EXPECT(pipelines.size() == wiring.num_pipelines());
  std::vector<std::vector<PlayedStage>> played(pipelines.size());
  ClusterPlayer player(pipelines, wiring, rules, played);
  for (const Wiring::Cluster& cluster : wiring.clusters())
    player.play(cluster, observer);
  return played;
}

void play_again(const Replay& replay, const Wiring& wiring, const PlayRules& rules,
                std::vector<std::vector<PlayedStage>>& played) {
  TPT_EXPECT(replay.pipelines.size() == wiring.num_pipelines());
  TPT_EXPECT(replay.changed.size() == replay.pipelines.size());
  played.resize(replay.pipelines.size());
  std::vector<const Wiring::Cluster*> clusters;
  for (const Wiring::Cluster& cluster : wiring.clusters())
    if (std::ranges::any_of(cluster.pipelines, [&](size_t p) { return replay.changed[p] != 0; }))
      clusters.push_back(&cluster);
  const size_t parts =
      std::clamp<size_t>(clusters.size(), 1, static_cast<size_t>(std::max(1, replay.threads)));
  parallel_for(parts, replay.threads, [&](size_t part) {
    ClusterPlayer player(replay.pipelines, wiring, rules, played);
    const size_t end = clusters.size() * (part + 1) / parts;
    for (size_t c = clusters.size() * part / parts; c < end; ++c)
      player.play(*clusters[c], {});
  });
}

}  // namespace triplepoint::sim
