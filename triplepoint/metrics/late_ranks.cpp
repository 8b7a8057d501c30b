// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/late_ranks.h"

#include <algorithm>
#include <map>

#include "triplepoint/metrics/late_cause.h"
#include "triplepoint/metrics/trace_lanes.h"

namespace triplepoint::metrics {

namespace {

/// Only what is later than this is worth an explanation.
constexpr int64_t worth_explaining = 1000;  // ns

class LateWatcher {
 public:
  LateWatcher(const run::Timeline& timeline, const run::Run* telemetry)
      : timeline_(timeline), cause_(timeline, telemetry) {
    if (const auto extent = run::extent(timeline)) begin_ = extent->begin.nanoseconds();
  }

  LateRanks watch(const CollectiveMatch& match) {
    add_up_communication();
    for (size_t i = 0; i < match.collectives.size(); ++i) {
      const Collective& collective = match.collectives[i];
      if (collective.across_ranks()) take(collective, i);
      for (const CollectivePart& part : collective.parts) {
        int64_t& end = previous_end_.try_emplace(part.rank, part.end).first->second;
        end = std::max(end, part.end);
      }
    }
    return finish();
  }

 private:
  void add_up_communication() {
    for (const run::Span& span : timeline_.spans)
      if (type_of(timeline_, span).kind == run::SpanKind::communication)
        of(span.rank).in_communication += nanoseconds_of(span);
  }

  RankLateness& of(int32_t rank) {
    RankLateness& lateness = ranks_[rank];
    lateness.rank = rank;
    return lateness;
  }

  void take(const Collective& collective, size_t index) {
    LateStart start{.collective = index, .rank = collective.last_starter()};
    start.start_spread = collective.last_begin() - collective.first_begin();
    start.end_spread = collective.last_end() - collective.first_end();
    start.shortest = INT64_MAX;
    int64_t second = collective.first_begin();
    for (const CollectivePart& part : collective.parts) {
      const int64_t wait = collective.wait_of(part);
      if (part.rank != start.rank) start.waits += wait;
      start.shortest = std::min(start.shortest, part.duration());
      start.longest = std::max(start.longest, part.duration());
      if (part.rank != start.rank) second = std::max(second, part.begin);
      of(part.rank).waited += wait;
      ++of(part.rank).collectives;
    }
    start.lead = collective.last_begin() - second;
    RankLateness& late = of(start.rank);
    ++late.times_last;
    late.caused += start.waits;
    late.alone += start.lead;
    if (start.start_spread > worth_explaining) explain(collective, start);
    starts_.push_back(std::move(start));
  }

  void explain(const Collective& collective, LateStart& start) {
    std::vector<Window> windows;
    for (const CollectivePart& part : collective.parts) {
      const auto before = previous_end_.find(part.rank);
      const int64_t begin =
          before == previous_end_.end() ? begin_ : std::min(before->second, part.begin);
      windows.push_back({.rank = part.rank, .begin = begin, .end = part.begin, .span = part.span});
    }
    const auto late = std::find_if(windows.begin(), windows.end(),
                                   [&](const Window& w) { return w.rank == start.rank; });
    start.chain = cause_.explain(*late, windows);
  }

  LateRanks finish() {
    LateRanks result{.starts = std::move(starts_)};
    const RankLateness* worst = nullptr;
    const RankLateness* busiest = nullptr;
    for (const auto& [rank, lateness] : ranks_) {
      if (worst == nullptr || lateness.caused > worst->caused) worst = &lateness;
      if (busiest == nullptr || lateness.in_communication > busiest->in_communication)
        busiest = &lateness;
      result.ranks.push_back(lateness);
    }
    if (worst != nullptr && worst->caused > 0) result.straggler = worst->rank;
    if (busiest != nullptr && busiest->in_communication > 0 && ranks_.size() > 1)
      result.naive_straggler = busiest->rank;
    return result;
  }

  const run::Timeline& timeline_;
  LateCause cause_;
  int64_t begin_ = 0;
  std::map<int32_t, int64_t> previous_end_;
  std::map<int32_t, RankLateness> ranks_;
  std::vector<LateStart> starts_;
};

}  // namespace

LateRanks find_late_ranks(const run::Timeline& timeline, const CollectiveMatch& match,
                          const run::Run* telemetry) {
  return LateWatcher(timeline, telemetry).watch(match);
}

}  // namespace triplepoint::metrics
