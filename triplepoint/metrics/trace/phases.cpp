// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "triplepoint/base/result.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/phase_cost.h"
#include "triplepoint/metrics/trace/trace_lanes.h"
#include "triplepoint/metrics/trace/trace_steps.h"

namespace triplepoint::metrics {

namespace {

struct Change {
  int64_t time = 0;
  std::string_view label;
  int by = 0;  // +1 begins, -1 ends
};

std::string_view word_of(const run::SpanType& type, PhasesBy by) {
  if (by != PhasesBy::activity) return label_of(type);
  if (type.kind == run::SpanKind::communication) return "communication";
  return type.kind == run::SpanKind::copy ? "copy" : "compute";
}

/// Everything under way, in one word; copies hide behind the rest.
std::string joined_names(const std::map<std::string_view, int>& open) {
  std::string all;
  for (const auto& [label, count] : open) {
    if (count == 0 || (label == "copy" && open.size() > 1)) continue;
    all += (all.empty() ? "" : " + ") + std::string(label);
  }
  return all.empty() ? "idle" : all;
}

void append(std::vector<TimeInterval>& list, int64_t begin, int64_t end) {
  if (begin >= end) return;
  if (!list.empty() && list.back().end == begin)
    list.back().end = end;
  else
    list.push_back({begin, end});
}

/// Divides the time from the first begin to the last end by what is under way.
std::map<std::string, std::vector<TimeInterval>> divide(std::vector<Change> changes) {
  std::ranges::sort(changes, {}, &Change::time);
  std::map<std::string, std::vector<TimeInterval>> phases;
  std::map<std::string_view, int> open;
  for (size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    if (i > 0 && changes[i - 1].time < change.time)
      append(phases[joined_names(open)], changes[i - 1].time, change.time);
    if ((open[change.label] += change.by) == 0) open.erase(change.label);
  }
  return phases;
}

std::vector<Phase> divided(const run::Timeline& timeline, PhasesBy by) {
  std::vector<Phase> phases;
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    std::vector<Change> changes;
    const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
    for (const run::Span* span = first; span != last; ++span) {
      const run::SpanType& type = type_of(timeline, *span);
      if (!is_kernel(type.kind)) continue;
      changes.push_back({span->begin.nanoseconds(), word_of(type, by), 1});
      changes.push_back({span->end.nanoseconds(), word_of(type, by), -1});
    }
    for (auto& [label, intervals] : divide(std::move(changes)))
      phases.push_back({label, rank, std::move(intervals)});
  }
  return phases;
}

std::vector<Phase> collectives(const run::Timeline& timeline) {
  std::map<std::pair<int32_t, std::string_view>, std::vector<TimeInterval>> found;
  for (const run::Span& span : timeline.spans) {
    const run::SpanType& type = type_of(timeline, span);
    if (type.kind != run::SpanKind::communication) continue;
    std::vector<TimeInterval>& list = found[{span.rank, label_of(type)}];
    const TimeInterval one{span.begin.nanoseconds(), span.end.nanoseconds()};
    if (!list.empty() && one.begin <= list.back().end)
      list.back().end = std::max(list.back().end, one.end);
    else if (one.begin < one.end)
      list.push_back(one);
  }
  std::vector<Phase> phases;
  phases.reserve(found.size());
  for (auto& [key, intervals] : found)
    phases.push_back({std::string(key.second), key.first, std::move(intervals)});
  return phases;
}

std::vector<Phase> steps(const run::Timeline& timeline) {
  std::vector<Phase> phases;
  for (const TraceStep& step : find_steps(timeline).steps)
    for (const TraceStep::OfRank& of : step.ranks)
      phases.push_back({step.name, of.rank, {{of.begin, of.end}}});
  std::ranges::stable_sort(phases, {}, &Phase::rank);
  return phases;
}

/// Whose time it is where several kernels run: compute before collectives before copies.
int order_of(run::SpanKind kind) {
  if (kind == run::SpanKind::copy) return 2;
  return kind == run::SpanKind::communication ? 1 : 0;
}

/// Each moment of a rank by the kernel whose time it is; between kernels, idle.
std::vector<Phase> owned_times(const run::Timeline& timeline, int32_t rank,
                               const std::vector<std::string>& label_of_span) {
  struct Edge {
    int64_t time = 0;
    bool begins = false;
    std::tuple<int, int64_t, size_t> kernel;  // the least of those that run has the time
  };
  std::vector<Edge> edges;
  const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
  for (const run::Span* span = first; span != last; ++span) {
    const run::SpanKind kind = type_of(timeline, *span).kind;
    if (!is_kernel(kind) || span->begin >= span->end) continue;
    const std::tuple kernel(order_of(kind), span->begin.nanoseconds(),
                            as_size(span - timeline.spans.data()));
    edges.push_back({span->begin.nanoseconds(), true, kernel});
    edges.push_back({span->end.nanoseconds(), false, kernel});
  }
  std::ranges::sort(edges, {}, &Edge::time);
  std::map<std::string, std::vector<TimeInterval>> found;
  std::set<std::tuple<int, int64_t, size_t>> open;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (i > 0 && edges[i - 1].time < edge.time)
      append(found[open.empty() ? "idle" : label_of_span[std::get<2>(*open.begin())]],
             edges[i - 1].time, edge.time);
    edge.begins ? void(open.insert(edge.kernel)) : void(open.erase(edge.kernel));
  }
  std::vector<Phase> phases;
  for (auto& [label, intervals] : found)
    phases.push_back({label, rank, std::move(intervals)});
  return phases;
}

}  // namespace

int64_t Phase::time() const {
  return sum_of(intervals,
                [](const TimeInterval& interval) { return interval.end - interval.begin; });
}

std::vector<Phase> phases_of(const run::Timeline& timeline, PhasesBy by) {
  TPT_EXPECT(timeline.instances.empty());
  switch (by) {
    case PhasesBy::activity:
    case PhasesBy::label:
      return divided(timeline, by);
    case PhasesBy::collective:
      return collectives(timeline);
    case PhasesBy::step:
      return steps(timeline);
  }
  return {};
}

std::vector<Phase> phases_by_owner(const run::Timeline& timeline,
                                   const std::vector<std::string>& label_of_span) {
  TPT_EXPECT(label_of_span.size() == timeline.spans.size());
  std::vector<Phase> phases;
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank)
    std::ranges::move(owned_times(timeline, rank, label_of_span), std::back_inserter(phases));
  return phases;
}

}  // namespace triplepoint::metrics
