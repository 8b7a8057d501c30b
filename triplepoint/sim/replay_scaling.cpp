// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/sim/replay.h"

namespace triplepoint::sim {

namespace {

/// The group as the network sees it, ranks side by side on the nodes.
perf::GroupPlacement placement_of(const CollectivePlay& play, const spec::Cluster& cluster) {
  const int64_t domain = std::max<int64_t>(1, cluster.scale_up.domain_size);
  const int64_t reach = play.last_rank - play.first_rank + 1;
  perf::GroupPlacement placement{.ranks = play.ranks};
  placement.nodes = std::min(play.ranks, (std::max(reach, play.ranks) + domain - 1) / domain);
  placement.ranks_per_node = (play.ranks + placement.nodes - 1) / placement.nodes;
  placement.groups_per_node =
      std::max<int64_t>(1, domain / std::max<int64_t>(1, placement.ranks_per_node));
  return placement;
}

Seconds model_time(const CollectivePlay& play, const spec::Cluster& cluster) {
  return perf::collective_time(cluster, *play.collective, play.payload, placement_of(play, cluster))
      .total();
}

}  // namespace

ReplayScaling at_clock(double clock_ratio, double insensitive_share) {
  const double factor = (1 - insensitive_share) / clock_ratio + insensitive_share;
  return {.compute_time = factor, .other_time = factor};
}

ReplayScaling on_cluster(const spec::Cluster& there, const spec::Cluster* measured_on) {
  ReplayScaling scaling;
  if (measured_on) {
    const auto peaks = [](const spec::Gpu& gpu) { return gpu.peak(spec::Precision::bf16); };
    const auto from = peaks(measured_on->gpu), to = peaks(there.gpu);
    if (from && to) scaling.compute_time = scaling.other_time = *from / *to;
    if (measured_on->gpu.hbm_bandwidth && there.gpu.hbm_bandwidth)
      scaling.memory_time = *measured_on->gpu.hbm_bandwidth / *there.gpu.hbm_bandwidth;
  }
  const std::optional<spec::Cluster> from =
      measured_on ? std::optional(*measured_on) : std::nullopt;
  scaling.transfer = [there, from](const CollectivePlay& play) {
    if (!play.collective || play.payload <= Bytes() || play.ranks < 2) return play.transfer;
    const Seconds time = model_time(play, there);
    if (!from) return time;
    const Seconds was = model_time(play, *from);
    return was > Seconds() ? play.transfer * (time / was) : play.transfer;
  };
  return scaling;
}

}  // namespace triplepoint::sim
