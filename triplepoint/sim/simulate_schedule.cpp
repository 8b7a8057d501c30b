// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate_schedule.h"

// Runs the schedule of all pipelines, cluster by cluster (wiring.h).
//
// A cluster without flows is one pipeline: dependencies decide everything, and an action costs
// constant time (schedule_engine.h). A cluster with flows is an event simulation
// (flow_simulation.h). Clusters cannot affect each other by construction, so they are the unit of
// parallel work and the order in which they run does not enter the result.

#include <algorithm>
#include <optional>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/result.h"

#include "triplepoint/sim/flow_simulation.h"

namespace triplepoint::sim {
namespace {

/// Simulates clusters; a replica that equals the one before it is not simulated again.
class ClusterScheduler {
 public:
  ClusterScheduler(std::span<const std::vector<StageTimes>> pipelines, const Wiring& wiring,
                   const ScheduleRules& rules, std::span<std::vector<StageTimeline>> timelines)
      : pipelines_(pipelines), wiring_(wiring), rules_(rules), timelines_(timelines) {}

  void simulate(const Wiring::Cluster& cluster) {
    if (cluster.has_flows)
      simulate_together(cluster);
    else
      simulate_alone(cluster.pipelines.front());
  }

 private:
  void simulate_alone(size_t p) {
    // Replicas differ by their boards only. Without spread, or when the slowest boards are alike,
    // their durations are equal to the bit, and the timeline is copied. Only the last one is
    // compared: without spread all replicas are equal, with spread hardly any two.
    if (last_ && are_equal(p, *last_)) {
      timelines_[p] = timelines_[*last_];
    } else {
      start(lone_, p);
      lone_.run();
      timelines_[p] = take_timeline(lone_);
    }
    last_ = p;
  }

  void simulate_together(const Wiring::Cluster& cluster) {
    std::vector<LinkedPipeline> pipelines(cluster.pipelines.size());
    for (size_t i = 0; i < pipelines.size(); ++i)
      start(pipelines[i], cluster.pipelines[i]);
    // Rates that were solved for one cluster serve the next one; one scratch per part, as threads
    // must not share it.
    if (!scratch_) scratch_.emplace(wiring_);
    simulate_flows(pipelines, wiring_, cluster, *scratch_);
    for (size_t i = 0; i < pipelines.size(); ++i)
      timelines_[cluster.pipelines[i]] = take_timeline(pipelines[i]);
  }

  void start(LinkedPipeline& pipeline, size_t p) const {
    pipeline.start(pipelines_[p], wiring_.wires(p), wiring_.mode(), rules_);
  }
  bool are_equal(size_t a, size_t b) const {
    return pipelines_[a] == pipelines_[b] && std::ranges::equal(wiring_.wires(a), wiring_.wires(b));
  }

  std::span<const std::vector<StageTimes>> pipelines_;
  const Wiring& wiring_;
  const ScheduleRules& rules_;
  std::span<std::vector<StageTimeline>> timelines_;
  LinkedPipeline lone_;
  std::optional<size_t> last_;
  std::optional<FlowScratch> scratch_;
};

}  // namespace

std::vector<std::vector<StageTimeline>> simulate_schedule(
    std::span<const std::vector<StageTimes>> pipelines, const Wiring& wiring,
    const ScheduleRules& rules) {
  TPT_EXPECT(pipelines.size() == wiring.num_pipelines());
  std::vector<std::vector<StageTimeline>> timelines(pipelines.size());
  ClusterScheduler scheduler(pipelines, wiring, rules, timelines);
  for (const Wiring::Cluster& cluster : wiring.clusters())
    scheduler.simulate(cluster);
  return timelines;
}

void update_schedule(const ScheduleUpdate& update, const Wiring& wiring, const ScheduleRules& rules,
                     std::vector<std::vector<StageTimeline>>& timelines) {
  TPT_EXPECT(update.pipelines.size() == wiring.num_pipelines());
  TPT_EXPECT(update.changed.size() == update.pipelines.size());
  timelines.resize(update.pipelines.size());
  std::vector<const Wiring::Cluster*> clusters;
  for (const Wiring::Cluster& cluster : wiring.clusters())
    if (std::ranges::any_of(cluster.pipelines, [&](size_t p) { return update.changed[p] != 0; }))
      clusters.push_back(&cluster);
  // Contiguous parts, one scheduler each: neighbours stay together, so that equal replicas are
  // found.
  const size_t parts = std::clamp<size_t>(clusters.size(), 1, as_size(std::max(1, update.threads)));
  parallel_for(parts, update.threads, [&](size_t part) {
    ClusterScheduler scheduler(update.pipelines, wiring, rules, timelines);
    const size_t end = clusters.size() * (part + 1) / parts;
    for (size_t c = clusters.size() * part / parts; c < end; ++c)
      scheduler.simulate(*clusters[c]);
  });
}

}  // namespace triplepoint::sim
