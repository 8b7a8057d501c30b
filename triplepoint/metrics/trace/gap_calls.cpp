// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/gap_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/span_list.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

using Gaps = std::vector<std::pair<int64_t, int64_t>>;
using Times = std::map<std::string, int64_t>;

bool runs_on_device(run::SpanKind kind) {
  return kind != run::SpanKind::host && kind != run::SpanKind::pass && kind != run::SpanKind::step;
}

Gaps gaps_of(const SpanList& spans, int32_t rank) {
  Gaps gaps;
  int64_t end = INT64_MIN;
  const auto [first, last] = spans.of_rank(rank);
  for (int32_t i = first; i < last; ++i) {
    if (!runs_on_device(spans.type(i).kind)) continue;
    if (end != INT64_MIN && spans.begin(i) - end > IdleRules{}.kernel_gap)
      gaps.emplace_back(end, spans.begin(i));
    end = std::max(end, spans.end(i));
  }
  return gaps;
}

void add_calls(const SpanList& spans, const LaneOfSpans& lane, const Gaps& gaps, Times& times) {
  auto gap = gaps.begin();
  for (const HostSegment& segment : innermost_spans(spans, lane)) {
    while (gap != gaps.end() && gap->second <= segment.begin)
      ++gap;
    for (auto g = gap; g != gaps.end() && g->first < segment.end; ++g)
      times[spans.type(segment.span).name] +=
          std::min(segment.end, g->second) - std::max(segment.begin, g->first);
  }
}

/// The thread with most spans is the one that launches.
std::map<int32_t, const LaneOfSpans*> busiest_lanes(const std::vector<LaneOfSpans>& lanes) {
  std::map<int32_t, const LaneOfSpans*> busiest;
  for (const LaneOfSpans& lane : lanes) {
    const LaneOfSpans*& best = busiest[lane.rank];
    if (best == nullptr || lane.spans.size() > best->spans.size()) best = &lane;
  }
  return busiest;
}

}  // namespace

HostCallKind host_call_kind(std::string_view name) {
  constexpr std::array loaders = {"DataLoader", "dataloader", "data_loader",
                                  "_next_data", "load_batch", "get_batch"};
  constexpr std::array allocators = {"cudaMalloc", "cudaFree", "hipMalloc",
                                     "hipFree",    "cuMem",    "empty_cache"};
  const auto has = [&](const char* part) { return name.find(part) != std::string_view::npos; };
  if (std::ranges::any_of(loaders, has)) return HostCallKind::data_loader;
  return std::ranges::any_of(allocators, has) ? HostCallKind::allocator : HostCallKind::other;
}

std::optional<GapCalls> calls_in_gaps(const run::Timeline& timeline) {
  const SpanList spans(timeline);
  const std::vector<LaneOfSpans> lanes = lanes_of(spans, LaneKind::host);
  Times times;
  int64_t all = 0;
  const auto busiest = busiest_lanes(lanes);
  for (const auto& [rank, lane] : busiest) {
    const Gaps gaps = gaps_of(spans, rank);
    for (const auto& [begin, end] : gaps)
      all += end - begin;
    add_calls(spans, *lane, gaps, times);
  }
  if (times.empty() || all == 0) return std::nullopt;
  std::map<HostCallKind, int64_t> of_kind;
  for (const auto& [name, time] : times)
    of_kind[host_call_kind(name)] += time;
  const HostCallKind most =
      std::ranges::max_element(of_kind, {}, &std::pair<const HostCallKind, int64_t>::second)->first;
  GapCalls found{
      .kind = most,
      .share = static_cast<double>(of_kind[most]) / static_cast<double>(all),
      .time = static_cast<double>(of_kind[most]) / static_cast<double>(busiest.size()) * unit::ns};
  int64_t longest = -1;
  for (const auto& [name, time] : times)
    if (host_call_kind(name) == most && time > longest) longest = time, found.name = name;
  return found;
}

}  // namespace triplepoint::metrics
