// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate_schedule.h"

// Runs the schedule of all pipelines, cluster by cluster (wiring.h).
//
// A cluster without flows is one pipeline: dependencies decide everything, and an action costs
// constant time (schedule_engine.h). A cluster with flows is an event simulation
// (flow_simulation.h). Clusters cannot affect each other by construction, so they are the unit of
// parallel work and the order in which they run does not enter the result.

#include <algorithm>
#include <limits>
#include <optional>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/result.h"

#include "triplepoint/sim/flow_simulation.h"
#include "triplepoint/sim/schedule_engine.h"

namespace triplepoint::sim {
namespace {

/// Simulates clusters; a replica that equals the one before it is not simulated again.
class ClusterScheduler {
 public:
  ClusterScheduler(std::span<const std::vector<StageTimes>> pipelines, const Wiring& wiring,
                   const ScheduleRules& rules, std::span<std::vector<StageTimeline>> timelines)
      : pipelines_(pipelines), wiring_(wiring), rules_(rules), timelines_(timelines) {}

  void simulate(const Wiring::Cluster& cluster, const LinkObserver& observer) {
    if (cluster.has_flows)
      simulate_together(cluster, observer);
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

  void simulate_together(const Wiring::Cluster& cluster, const LinkObserver& observer) {
    std::vector<LinkedPipeline> pipelines(cluster.pipelines.size());
    for (size_t i = 0; i < pipelines.size(); ++i)
      start(pipelines[i], cluster.pipelines[i]);
    // Rates that were solved for one cluster serve the next one; one scratch per part, as threads
    // must not share it.
    if (!scratch_) scratch_.emplace(wiring_);
    simulate_flows(pipelines, wiring_, cluster, observer, *scratch_);
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
    const ScheduleRules& rules, const LinkObserver& observer) {
  TPT_EXPECT(pipelines.size() == wiring.num_pipelines());
  std::vector<std::vector<StageTimeline>> timelines(pipelines.size());
  ClusterScheduler scheduler(pipelines, wiring, rules, timelines);
  for (const Wiring::Cluster& cluster : wiring.clusters())
    scheduler.simulate(cluster, observer);
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
  const size_t parts =
      std::clamp<size_t>(clusters.size(), 1, static_cast<size_t>(std::max(1, update.threads)));
  parallel_for(parts, update.threads, [&](size_t part) {
    ClusterScheduler scheduler(update.pipelines, wiring, rules, timelines);
    const size_t end = clusters.size() * (part + 1) / parts;
    for (size_t c = clusters.size() * part / parts; c < end; ++c)
      scheduler.simulate(*clusters[c], {});
  });
}

// Ranks that are processes on the cores of one machine.
//
// Here every action can slow down every other, so its length depends on which others are at work: a
// simulation in time, from one begin or end of an action to the next, with one core rate in
// between. The pipelines are the same engines as everywhere (schedule_engine.h); only the ends of
// their actions come from here.
//
// One core rate serves all: the operating system shares cores among runnable threads alike, so
// every rank that computes gets the same part of a core, and only how much of its action is
// computing differs.
//
// Cost: an event per begin and end of an action, each a pass over all works and, where cores are
// scarce, a bisection over them. That is cheap enough, as an emulated cluster has no more ranks
// than one machine can run.

namespace {

using workload::Action;

constexpr double no_event = std::numeric_limits<double>::infinity();

/// An action that a stage is to do or does.
struct Work {
  size_t pipeline = 0, stage = 0;
  double ranks = 1;
  bool awaits_begin = false, at_work = false;
  double begin = 0;
  double busy = 0, waiting = 0, done = 0;  // seconds alone; done: share of it

  double seconds_at(double rate) const { return busy / rate + waiting; }
};

class CoreSharing {
 public:
  CoreSharing(std::span<const std::vector<StageTimes>> pipelines,
              std::span<const std::vector<GroupOnCores>> groups, const Wiring& wiring,
              const ScheduleRules& rules, int64_t cores)
      : times_(pipelines),
        groups_(groups),
        engines_(pipelines.size()),
        gap_(rules.gap / unit::s),
        cores_(static_cast<double>(cores)),
        now_(rules.start / unit::s) {
    TPT_EXPECT(pipelines.size() == groups.size() && cores > 0);
    for (size_t p = 0; p < pipelines.size(); ++p) {
      first_.push_back(works_.size());
      for (size_t s = 0; s < pipelines[p].size(); ++s)
        works_.push_back(
            {.pipeline = p, .stage = s, .ranks = static_cast<double>(groups[p][s].ranks)});
      engines_[p].start(pipelines[p], wiring.wires(p), wiring.mode(), rules);
    }
  }

  std::vector<std::vector<StageTimeline>> run() {
    for (size_t p = 0; p < engines_.size(); ++p) {
      engines_[p].run();
      collect_begun(p);
    }
    for (;;) {
      for (Work& work : works_)
        if (work.awaits_begin && work.begin <= now_) {
          work.awaits_begin = false;
          work.at_work = true;
        }
      const double rate = core_rate();
      const double next = next_event(rate);
      if (next == no_event) break;
      go_to(next, rate);
    }
    std::vector<std::vector<StageTimeline>> timelines;
    for (Engine& engine : engines_)
      timelines.push_back(take_timeline(engine));
    return timelines;
  }

 private:
  using Engine = ScheduleEngine<TimelineRecord, Delays::shared_cores>;

  void collect_begun(size_t p) {
    for (const Begun& begun : engines_[p].begun()) {
      Work& work = works_[first_[p] + begun.of];
      const Action& action = engines_[p].action_at(begun.of);
      const auto chunk = static_cast<size_t>(action.chunk);
      const auto kind = static_cast<size_t>(action.kind);
      const double alone = times_[p][begun.of].durations[chunk][kind] / unit::s;
      work.begin = begun.begin / unit::s;
      work.awaits_begin = true;
      work.waiting = std::min(alone, groups_[p][begun.of].waiting[chunk][kind] / unit::s);
      // The host's gap is work of the rank's own process and takes a core like the rest.
      work.busy = alone - work.waiting + gap_;
      work.done = 0;
    }
    engines_[p].begun().clear();
  }

  double cores_wanted(double rate) const {
    double wanted = 0;
    for (const Work& work : works_)
      // Share of its time in which a rank computes, at this rate; the rest it waits and wants no
      // core.
      if (work.at_work && work.busy > 0) wanted += work.ranks * work.busy / work.seconds_at(rate);
    return wanted;
  }

  /// Of each rank that computes. Found by halving: what is wanted grows with the rate.
  double core_rate() const {
    if (cores_wanted(1) <= cores_) return 1;
    double low = 0, high = 1;
    // Fifty halvings come near the resolution of a double. The lower end is taken: never more than
    // `cores_`.
    for (int i = 0; i < 50; ++i) {
      const double middle = 0.5 * (low + high);
      (cores_wanted(middle) > cores_ ? high : low) = middle;
    }
    return low;
  }

  double next_event(double rate) const {
    double next = no_event;
    for (const Work& work : works_) {
      if (work.at_work)
        next = std::min(next, now_ + (1 - work.done) * work.seconds_at(rate));
      else if (work.awaits_begin)
        next = std::min(next, work.begin);
    }
    return next;
  }

  void go_to(double next, double rate) {
    constexpr double completion_tolerance = 1e-12;
    for (Work& work : works_) {
      if (!work.at_work) continue;
      const double all = work.seconds_at(rate);
      work.done = all > 0 ? work.done + (next - now_) / all : 1;
      // Actions that should end together differ by rounding; without the tolerance they would end
      // in two events of almost no length.
      if (work.done >= 1 - completion_tolerance) work.done = 1;
    }
    now_ = next;
    for (Work& work : works_) {
      if (!work.at_work || work.done != 1) continue;
      work.at_work = false;
      engines_[work.pipeline].end_action(work.stage, now_ * unit::s);
      collect_begun(work.pipeline);
    }
  }

  std::span<const std::vector<StageTimes>> times_;
  std::span<const std::vector<GroupOnCores>> groups_;
  std::vector<Engine> engines_;
  std::vector<size_t> first_;  // [pipeline], of works_
  std::vector<Work> works_;    // a stage has one at a time
  double gap_, cores_, now_;
};

}  // namespace

std::vector<std::vector<StageTimeline>> simulate_on_shared_cores(
    std::span<const std::vector<StageTimes>> pipelines,
    std::span<const std::vector<GroupOnCores>> groups, const Wiring& wiring,
    const ScheduleRules& rules, int64_t cores) {
  return CoreSharing(pipelines, groups, wiring, rules, cores).run();
}

Seconds waiting_of(const spec::GpuLoad& load, Seconds duration) {
  const Seconds on_cores =
      load.computing + std::max(Seconds(), load.communicating - load.communicating_scale_out);
  return std::max(Seconds(), duration - on_cores);
}

}  // namespace triplepoint::sim
