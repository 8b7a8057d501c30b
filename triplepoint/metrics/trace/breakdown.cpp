// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/breakdown.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/base/result.h"

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
  std::vector<Reach> ranks(as_size(timeline.num_ranks)), patterns;
  for (const run::Span& span : timeline.spans)
    if (is_kernel(type_of(timeline, span).kind))
      ranks[as_size(span.rank)].add(span.begin.nanoseconds(), span.end.nanoseconds());
  for (const run::Pattern& pattern : timeline.patterns)
    patterns.push_back(device_reach(timeline, pattern));
  for (const run::PatternInstance& instance : timeline.instances) {
    const Reach& inside = patterns[as_size(instance.pattern)];
    if (inside.empty()) continue;
    const int64_t origin = instance.begin.nanoseconds();
    ranks[as_size(instance.rank)].add(origin + inside.begin, origin + inside.end);
  }
  return ranks;
}

/// Books each gap of a rank's device by what comes after it.
IdleTime idle_of(const run::Timeline& timeline, int32_t rank, const std::vector<int32_t>& launches,
                 const IdleRules& rules) {
  IdleTime idle;
  std::optional<int64_t> until;  // what ran so far
  const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
  for (const run::Span* span = first; span != last; ++span) {
    if (!is_kernel(type_of(timeline, *span).kind)) continue;
    const int32_t launch = launches[as_size(span - timeline.spans.data())];
    const int64_t begin = span->begin.nanoseconds(), end = span->end.nanoseconds();
    const int64_t gap = std::max<int64_t>(0, begin - until.value_or(begin));
    if (launch < 0)
      idle.unknown += gap;
    else if (timeline.spans[as_size(launch)].begin.nanoseconds() > until)
      idle.host_wait += gap;
    else if (gap <= rules.kernel_gap)
      idle.kernel_wait += gap;
    else
      idle.other += gap;
    until = std::max(until.value_or(end), end);
  }
  return idle;
}

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

struct Row {
  KernelRow row;
  double occupancy_time = 0, known_time = 0;
};

void add(Row& to, const run::Span& span, const run::SpanDetail* detail, int32_t warp_size) {
  KernelRow& row = to.row;
  const int64_t length = nanoseconds_of(span);
  row.shortest = row.count == 0 ? length : std::min(row.shortest, length);
  row.longest = std::max(row.longest, length);
  ++row.count;
  row.total += length;
  if (detail == nullptr) return;
  if (detail->blocks >= 0 && detail->threads_per_block >= 0) {
    ++row.with_grid;
    row.blocks += detail->blocks;
    row.warps += detail->blocks * ((detail->threads_per_block + warp_size - 1) / warp_size);
  }
  if (detail->occupancy < 0) return;
  to.occupancy_time += as_real(detail->occupancy) * as_real(length);
  to.known_time += as_real(length);
}

bool is_longer(const KernelRow& a, const KernelRow& b) {
  return std::tuple(-a.total, a.label, a.name) < std::tuple(-b.total, b.label, b.name);
}

}  // namespace

std::optional<double> RankBreakdown::overlap() const {
  if (communication == 0) return std::nullopt;
  return as_real(overlapped) / as_real(communication);
}

std::vector<RankBreakdown> breakdown_of_ranks(const run::Timeline& timeline,
                                              const IdleRules& rules) {
  const std::vector<Occupancy> occupancy = occupancy_of_ranks(timeline);
  const std::vector<Reach> reaches = device_reaches(timeline);
  const std::vector<int32_t> launches = launches_of(timeline);
  const bool classify_gaps = timeline.instances.empty() && knows_launches(launches);
  std::vector<RankBreakdown> ranks;
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    const auto r = as_size(rank);
    if (reaches[r].empty()) continue;
    ranks.push_back(breakdown_of(rank, occupancy[r], reaches[r]));
    if (classify_gaps) ranks.back().idle_time = idle_of(timeline, rank, launches, rules);
  }
  return ranks;
}

std::vector<KernelRow> kernel_table(const run::Timeline& timeline, KernelTableBy by, int32_t rank,
                                    int32_t warp_size) {
  TPT_EXPECT(timeline.instances.empty() && warp_size > 0);
  std::map<std::pair<std::string_view, std::string_view>, size_t> places;
  std::vector<int64_t> row_of_type;  // -1: no kernel
  std::vector<Row> rows;
  for (const run::SpanType& type : timeline.types) {
    if (!is_kernel(type.kind)) {
      row_of_type.push_back(-1);
      continue;
    }
    const std::string_view name = by == KernelTableBy::name ? type.name : std::string_view();
    const auto [place, added] = places.try_emplace({label_of(type), name}, rows.size());
    if (added) rows.push_back({.row = {.label = place->first.first, .name = name}});
    row_of_type.push_back(static_cast<int64_t>(place->second));
  }
  const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
  for (const run::Span* span = first; span != last; ++span) {
    const int64_t row = row_of_type[as_size(span->type)];
    if (row < 0) continue;
    const auto index = as_size(span - timeline.spans.data());
    add(rows[as_size(row)], *span, detail_of(timeline, index), warp_size);
  }
  std::vector<KernelRow> table;
  for (Row& row : rows) {
    if (row.known_time > 0) row.row.occupancy = row.occupancy_time / row.known_time;
    if (row.row.count > 0) table.push_back(row.row);
  }
  std::ranges::sort(table, is_longer);
  return table;
}

}  // namespace triplepoint::metrics
