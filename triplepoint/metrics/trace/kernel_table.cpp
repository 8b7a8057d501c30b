// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/kernel_table.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/base/expect.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/kernel_rules.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

namespace {

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
  to.occupancy_time += static_cast<double>(detail->occupancy) * static_cast<double>(length);
  to.known_time += static_cast<double>(length);
}

bool is_longer(const KernelRow& a, const KernelRow& b) {
  return std::tuple(-a.total, a.label, a.name) < std::tuple(-b.total, b.label, b.name);
}

}  // namespace

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
    const int64_t row = row_of_type[static_cast<size_t>(span->type)];
    if (row < 0) continue;
    const auto index = static_cast<size_t>(span - timeline.spans.data());
    add(rows[static_cast<size_t>(row)], *span, detail_of(timeline, index), warp_size);
  }
  std::vector<KernelRow> table;
  for (Row& row : rows) {
    if (row.known_time > 0) row.row.occupancy = row.occupancy_time / row.known_time;
    if (row.row.count > 0) table.push_back(row.row);
  }
  std::sort(table.begin(), table.end(), is_longer);
  return table;
}

}  // namespace triplepoint::metrics
