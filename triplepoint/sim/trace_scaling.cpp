// SPDX-License-Identifier: Apache-2.0
// Factors for a what-if of a trace, from models. A trace holds effects that no model has, so
// measured times are scaled by the ratio of two predictions where both clusters are known: errors
// that both predictions share cancel. Only without the measured cluster does a prediction replace a
// measured time.
#include <algorithm>
#include <optional>

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/sim/trace_what_if.h"

namespace triplepoint::sim {

namespace {

/// The group as the network sees it, ranks side by side on the nodes.
perf::GroupPlacement placement_of(const CollectiveInstance& instance,
                                  const spec::Cluster& cluster) {
  const int64_t domain = std::max<int64_t>(1, cluster.scale_up.domain_size);
  const int64_t reach = instance.last_rank - instance.first_rank + 1;
  perf::GroupPlacement placement{.ranks = instance.ranks};
  placement.nodes =
      std::min(instance.ranks, (std::max(reach, instance.ranks) + domain - 1) / domain);
  placement.ranks_per_node = (instance.ranks + placement.nodes - 1) / placement.nodes;
  placement.groups_per_node =
      std::max<int64_t>(1, domain / std::max<int64_t>(1, placement.ranks_per_node));
  return placement;
}

Seconds model_time(const CollectiveInstance& instance, const spec::Cluster& cluster) {
  return perf::collective_time(cluster, *instance.collective, instance.payload,
                               placement_of(instance, cluster))
      .total();
}

}  // namespace

TraceScaling at_clock(double clock_ratio, double insensitive_share) {
  const double factor = (1 - insensitive_share) / clock_ratio + insensitive_share;
  return {.compute_time = factor, .other_time = factor};
}

TraceScaling on_cluster(const spec::Cluster& there, const spec::Cluster* measured_on) {
  TraceScaling scaling;
  if (measured_on) {
    const auto peaks = [](const spec::Gpu& gpu) { return gpu.peak(spec::Precision::bf16); };
    const auto from = peaks(measured_on->gpu), to = peaks(there.gpu);
    if (from && to) scaling.compute_time = scaling.other_time = *from / *to;
    if (measured_on->gpu.hbm_bandwidth && there.gpu.hbm_bandwidth)
      scaling.memory_time = *measured_on->gpu.hbm_bandwidth / *there.gpu.hbm_bandwidth;
  }
  const std::optional<spec::Cluster> from =
      measured_on ? std::optional(*measured_on) : std::nullopt;
  scaling.transfer = [there, from](const CollectiveInstance& instance) {
    if (!instance.collective || instance.payload <= Bytes() || instance.ranks < 2)
      return instance.transfer;
    const Seconds time = model_time(instance, there);
    if (!from) return time;
    const Seconds was = model_time(instance, *from);
    return was > Seconds() ? instance.transfer * (time / was) : instance.transfer;
  };
  return scaling;
}

}  // namespace triplepoint::sim
