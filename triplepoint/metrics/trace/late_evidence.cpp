// SPDX-License-Identifier: Apache-2.0
// What a late rank did while the others waited.
//
// A window lasts from the end of the rank's communication before to the begin of the collective.
// Named is what the late rank has more of than the median of the others; the median, because others
// may be late for other reasons.
#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/trace_tracks.h"

#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/metrics/run/view.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/metrics/trace/own_time.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

using run::Bottleneck;
using run::Evidence;
using Kind = Evidence::Kind;

constexpr double least_share = 0.25;  // of the delay; a smaller part is not its cause
constexpr int64_t most_spans_to_blame = 1'000'000;

/// One rank's own time before a collective, ns.
struct Window {
  int32_t rank = 0;
  int64_t begin = 0, end = 0;
  int32_t span = 0;  // of the collective on this rank
};

/// What the late rank has more of than the median of the others; `of` asks one window.
template <class Of>
int64_t excess(const Window& late, const std::vector<Window>& windows, Of of) {
  std::vector<int64_t> others;
  for (const Window& window : windows)
    if (window.rank != late.rank) others.push_back(of(window));
  return of(late) - (others.empty() ? 0 : lower_median(std::move(others)));
}

double in_seconds(int64_t ns) {
  return as_real(ns) * 1e-9;
}

class LateEvidence {
 public:
  LateEvidence(const SpanList& spans, const CollectiveMatch& match, const run::Run* telemetry)
      : spans_(spans),
        match_(match),
        telemetry_(telemetry),
        host_lanes_(lanes_of(spans, LaneKind::host)) {
    if (!spans.timeline().details.empty()) launches_ = launches_of(spans.timeline());
    for (const run::SpanType& type : spans.timeline().types)
      loads_data_.push_back(!is_kernel(type.kind) &&
                            host_call_kind(type.name) == HostCallKind::data_loader);
  }

  void add(const LateStart& start, std::vector<Evidence>& evidence) const {
    if (knows_collectives_only(spans_.timeline())) return;
    const Collective& collective = match_.collectives[start.collective];
    const std::vector<Window> windows = windows_before(collective);
    const Window& late = *std::ranges::find(windows, start.rank, &Window::rank);
    if (start.gaps > start.kernels) {
      evidence.push_back({Kind::gaps, in_seconds(std::min(start.gaps, start.own_delay))});
      if (start.are_comparable) add_host(late, windows, start.own_delay, evidence);
    } else if (start.kernels > 0) {
      evidence.push_back({Kind::kernels, in_seconds(std::min(start.kernels, start.own_delay)), 0,
                          start.slowest < 0 ? "" : spans_.type(start.slowest).name});
    }
    add_devices(late, evidence);
  }

 private:
  using Times = std::map<std::string, int64_t>;

  std::vector<Window> windows_before(const Collective& collective) const {
    std::vector<Window> windows;
    std::vector<int32_t> of_rank(as_size(spans_.timeline().num_ranks), -1);
    for (const CollectivePart& part : collective.parts) {
      of_rank[as_size(part.rank)] = static_cast<int32_t>(windows.size());
      windows.push_back({part.rank, INT64_MIN, part.begin, part.span});
    }
    for (const Collective& other : match_.collectives)
      for (const CollectivePart& part : other.parts) {
        const int32_t place = of_rank[as_size(part.rank)];
        if (place < 0 || !other.across_ranks()) continue;
        Window& window = windows[as_size(place)];
        if (part.end <= window.end) window.begin = std::max(window.begin, part.end);
      }
    for (Window& window : windows)
      if (window.begin == INT64_MIN)  // from what is seen first of the rank
        window.begin = std::min(spans_.begin(spans_.of_rank(window.rank).first), window.end);
    return windows;
  }

  void add_host(const Window& late, const std::vector<Window>& windows, int64_t delay,
                std::vector<Evidence>& evidence) const {
    const auto add = [&](Kind kind, int64_t time) {
      if (as_real(time) > least_share * as_real(delay))
        evidence.push_back({kind, in_seconds(time)});
    };
    add(Kind::late_launch,
        excess(late, windows, [&](const Window& window) { return launch_delay(window); }));
    add(Kind::data_loader,
        excess(late, windows, [&](const Window& window) { return data_loading(window); }));
    std::map<int32_t, Times> of_ranks;
    for (const Window& window : windows)
      of_ranks[window.rank] = host_times(window);
    Evidence most{Kind::host_call};
    for (const auto& [name, time] : of_ranks[late.rank]) {
      const int64_t more = excess(late, windows, [&](const Window& window) {
        const Times& times = of_ranks[window.rank];
        return value_at(times, name).value_or(0);
      });
      if (in_seconds(more) > most.value) most.value = in_seconds(more), most.name = name;
    }
    if (most.value > 0) evidence.push_back(std::move(most));
  }

  void add_devices(const Window& late, std::vector<Evidence>& evidence) const {
    if (telemetry_ == nullptr) return;
    const run::Extent window{Instant(late.begin), Instant(late.end)};
    std::vector<size_t> own, others;
    for (size_t d = 0; d < telemetry_->devices.size(); ++d)
      if (const auto rank = telemetry_->devices[d].rank)
        (*rank == late.rank ? own : others).push_back(d);
    const DeviceEvidence devices(*telemetry_, read_devices(*telemetry_, window, 1, {}), window);
    for (Evidence& item : devices.of(own, others))
      evidence.push_back(std::move(item));
  }

  int32_t launch_of(const Window& window) const {
    return launches_.empty() ? -1 : launches_[as_size(window.span)];
  }
  int64_t launch_delay(const Window& window) const {
    const int32_t launch = launch_of(window);
    return launch < 0 ? 0 : spans_.begin(launch) - window.begin;
  }

  /// Calls of a data loader lie inside each other, so they do not add up.
  int64_t data_loading(const Window& window) const {
    int64_t longest = 0;
    const auto [first, last] = spans_.of_rank(window.rank);
    for (int32_t i = first; i < last && spans_.begin(i) < window.end; ++i)
      if (loads_data_[as_size(spans_.work(i).type)])
        longest = std::max(
            longest, std::min(spans_.end(i), window.end) - std::max(spans_.begin(i), window.begin));
    return longest;
  }

  /// Of the thread that launched the collective, by call.
  Times host_times(const Window& window) const {
    const int32_t launch = launch_of(window);
    const auto lane = std::ranges::find_if(
        host_lanes_, [&](const LaneOfSpans& l) { return holds(l.spans, launch); });
    Times times;
    if (launch < 0 || lane == host_lanes_.end()) return times;
    int64_t traced = 0;
    for (const HostSegment& segment : innermost_spans(spans_, *lane)) {
      const int64_t length =
          std::min(segment.end, window.end) - std::max(segment.begin, window.begin);
      if (length <= 0) continue;
      traced += length;
      times[spans_.type(segment.span).name] += length;
    }
    times["(no call traced)"] += window.end - window.begin - traced;
    return times;
  }

  const SpanList& spans_;
  const CollectiveMatch& match_;
  const run::Run* telemetry_;
  std::vector<LaneOfSpans> host_lanes_;
  std::vector<int32_t> launches_;  // empty: the timeline knows none
  std::vector<bool> loads_data_;   // by type of span
};

/// Where most of the rank's own delay came at once; null where no arrival tells.
const LateStart* worst_arrival(const LateRanks& late, int32_t rank) {
  const LateStart* worst = nullptr;
  for (const LateStart& start : late.starts)
    if (start.rank == rank && start.culprit == rank && start.own_delay > 0 && !start.by_order &&
        (worst == nullptr || start.own_delay > worst->own_delay))
      worst = &start;
  return worst;
}

/// Without what a recorded program does before its first measured step, such as to connect and warm
/// up. Profilers' traces have details, and what they show first is known as that.
run::Timeline measured_part(const run::Run& run) {
  run::Timeline timeline = run.timeline;
  if (run.manifest.origin != run::Origin::measured || run.steps.empty() ||
      !timeline.details.empty())
    return timeline;
  std::erase_if(timeline.spans,
                [&](const run::Span& span) { return span.begin < run.steps.front().begin; });
  return timeline;
}

}  // namespace

std::vector<Bottleneck> late_bottlenecks(const SpanList& spans, const CollectiveMatch& match,
                                         const LateRanks& late, const run::Run* telemetry) {
  std::vector<const RankLateness*> slow;
  for (const RankLateness& rank : late.ranks)
    if (rank.beyond_noise) slow.push_back(&rank);
  std::ranges::stable_sort(slow, std::greater<>(), &RankLateness::blamed);
  std::vector<Bottleneck> all;
  if (slow.empty()) return all;
  const LateEvidence evidence(spans, match, telemetry);
  for (const RankLateness* rank : slow) {
    Bottleneck found{
        .of = Bottleneck::Of::rank,
        .who = {rank->rank},
        .evidence = {{Kind::late_arrivals, as_real(rank->times_last), as_real(rank->collectives)}},
        .waits = in_seconds(rank->blamed) * unit::s,
        .is_partial = !late.has_all_ranks};
    if (const LateStart* worst = worst_arrival(late, rank->rank))
      evidence.add(*worst, found.evidence);
    found.cause = cause_of(found.evidence);
    all.push_back(std::move(found));
  }
  return all;
}

std::optional<std::vector<Bottleneck>> late_bottlenecks(const run::Run& run) {
  if (run::count_spans(run.timeline) > most_spans_to_blame) return std::nullopt;
  const run::Timeline timeline = measured_part(run);
  const SpanList spans(timeline);
  const CollectiveMatch match = match_collectives(spans, job_ranks_of(run));
  const LateRanks late = find_late_ranks(spans, match);
  if (late.starts.empty() || !late.has_all_ranks) return std::nullopt;
  return late_bottlenecks(spans, match, late, run.series.empty() ? nullptr : &run);
}

}  // namespace triplepoint::metrics
