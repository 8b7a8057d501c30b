// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/breakdown.h"

#include <algorithm>

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/occupancy.h"

namespace triplepoint::metrics {

namespace {

/// First begin and last end, in nanoseconds; begin > end: nothing yet.
struct Reach {
  int64_t begin = INT64_MAX, end = INT64_MIN;
  bool empty() const { return begin > end; }
  void add(int64_t b, int64_t e) {
    begin = std::min(begin, b);
    end = std::max(end, e);
  }
};

Reach device_reach(const run::Timeline& timeline, const run::Pattern& pattern) {
  Reach reach;
  int64_t begin = 0;
  for (const run::PatternPiece& piece : pattern.pieces) {
    const int64_t length = run::whole_nanoseconds(piece.length);
    const int64_t last = begin + std::max(0, piece.repeat - 1) * length;
    for (const run::Span& span : piece.spans) {
      if (piece.repeat < 1 || !is_kernel(type_of(timeline, span).kind)) continue;
      reach.add(begin + span.begin.nanoseconds(), last + span.end.nanoseconds());
    }
    begin += piece.repeat * length;
  }
  return reach;
}

/// From the first begin to the last end of what runs on each rank's device.
std::vector<Reach> device_reaches(const run::Timeline& timeline) {
  std::vector<Reach> ranks(static_cast<size_t>(timeline.num_ranks)), patterns;
  for (const run::Span& span : timeline.spans)
    if (is_kernel(type_of(timeline, span).kind))
      ranks[static_cast<size_t>(span.rank)].add(span.begin.nanoseconds(), span.end.nanoseconds());
  for (const run::Pattern& pattern : timeline.patterns)
    patterns.push_back(device_reach(timeline, pattern));
  for (const run::PatternInstance& instance : timeline.instances) {
    const Reach& inside = patterns[static_cast<size_t>(instance.pattern)];
    if (inside.empty()) continue;
    const int64_t origin = instance.begin.nanoseconds();
    ranks[static_cast<size_t>(instance.rank)].add(origin + inside.begin, origin + inside.end);
  }
  return ranks;
}

/// Walks along spans in order of begin, and books each gap by what comes after it.
class GapWatcher {
 public:
  GapWatcher(const run::Timeline& timeline, const std::vector<int32_t>& launches,
             const IdleRules& rules)
      : timeline_(timeline), launches_(launches), rules_(rules) {}

  void restart() { begun_ = false, idle_ = {}, busy_ = 0; }

  void pass(size_t index) {
    const run::Span& span = timeline_.spans[index];
    const int64_t begin = span.begin.nanoseconds(), end = span.end.nanoseconds();
    if (!begun_) first_ = until_ = begin;
    if (begin > until_) book(begin - until_, launches_[index]);
    busy_ += std::max<int64_t>(0, end - std::max(begin, until_));
    until_ = std::max(until_, end);
    begun_ = true;
  }

  const IdleTime& idle() const { return idle_; }
  int64_t busy() const { return busy_; }
  int64_t span() const { return begun_ ? until_ - first_ : 0; }

 private:
  void book(int64_t gap, int32_t launch) {
    if (launch < 0)
      idle_.unknown += gap;
    else if (timeline_.spans[static_cast<size_t>(launch)].begin.nanoseconds() > until_)
      idle_.host_wait += gap;
    else if (gap <= rules_.kernel_gap)
      idle_.kernel_wait += gap;
    else
      idle_.other += gap;
  }

  const run::Timeline& timeline_;
  const std::vector<int32_t>& launches_;
  IdleRules rules_;
  bool begun_ = false;
  int64_t first_ = 0, until_ = 0, busy_ = 0;
  IdleTime idle_;
};

RankBreakdown breakdown_of(int32_t rank, const Occupancy& doing, const Reach& reach) {
  RankBreakdown result{.rank = rank, .begin = Instant(reach.begin), .end = Instant(reach.end)};
  result.busy = doing.nanoseconds_with_any(DeviceActivity::on_device);
  result.compute = doing.nanoseconds_with(DeviceActivity::computing);
  result.communication = doing.nanoseconds_with(DeviceActivity::communicating);
  result.copy = doing.nanoseconds_with(DeviceActivity::copying);
  result.overlapped =
      doing.nanoseconds_with(DeviceActivity::communicating | DeviceActivity::computing);
  result.exposed_communication =
      doing.nanoseconds_with(DeviceActivity::communicating, DeviceActivity::computing);
  result.exposed_copy = doing.nanoseconds_with(
      DeviceActivity::copying, DeviceActivity::computing | DeviceActivity::communicating);
  result.idle_time.unknown = result.idle();
  return result;
}

}  // namespace

std::optional<double> RankBreakdown::overlap() const {
  if (communication == 0) return std::nullopt;
  return static_cast<double>(overlapped) / static_cast<double>(communication);
}

std::vector<RankBreakdown> breakdown_of_ranks(const run::Timeline& timeline,
                                              const IdleRules& rules) {
  const std::vector<Occupancy> occupancy = occupancy_of_ranks(timeline);
  const std::vector<Reach> reaches = device_reaches(timeline);
  const std::vector<int32_t> launches = launches_of(timeline);
  const bool classify_gaps = timeline.instances.empty() && knows_launches(launches);
  GapWatcher watcher(timeline, launches, rules);
  std::vector<RankBreakdown> ranks;
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    if (reaches[r].empty()) continue;
    ranks.push_back(breakdown_of(rank, occupancy[r], reaches[r]));
    if (!classify_gaps) continue;
    watcher.restart();
    const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
    for (const run::Span* span = first; span != last; ++span)
      if (is_kernel(type_of(timeline, *span).kind))
        watcher.pass(static_cast<size_t>(span - timeline.spans.data()));
    ranks.back().idle_time = watcher.idle();
  }
  return ranks;
}

std::vector<LaneIdle> idle_of_lanes(const run::Timeline& timeline, const IdleRules& rules) {
  const std::vector<int32_t> launches = launches_of(timeline);
  GapWatcher watcher(timeline, launches, rules);
  std::vector<LaneIdle> idle;
  for (LaneOfSpans& lane : lanes_of(timeline, LaneKind::device)) {
    watcher.restart();
    for (int32_t span : lane.spans)
      watcher.pass(static_cast<size_t>(span));
    lane.spans.clear();
    idle.push_back({.lane = std::move(lane),
                    .span = watcher.span(),
                    .busy = watcher.busy(),
                    .idle_time = watcher.idle()});
  }
  return idle;
}

}  // namespace triplepoint::metrics
