// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "triplepoint/metrics/trace/trace_steps.h"

namespace triplepoint::metrics {

namespace {

using Key = std::pair<std::string, std::string>;

/// One trace, and what it is divided by.
struct Side {
  run::Timeline timeline;  // only what lies in steps, if they are compared
  TraceSteps steps;
  int64_t ranks = 0;
  double parts = 1;
};

int64_t count_ranks(const run::Timeline& timeline) {
  return static_cast<int64_t>(breakdown_of_ranks(timeline).size());
}

Side side_of(const run::Timeline& timeline, TraceSteps steps, bool per_step) {
  Side side{.ranks = count_ranks(timeline)};
  side.timeline = per_step ? inside_steps(timeline, steps) : timeline;
  side.parts = as_real(std::max<int64_t>(1, side.ranks));
  if (per_step) side.parts *= as_real(steps.steps.size());
  side.steps = std::move(steps);
  return side;
}

std::vector<DiffRow> diff_tables(const Side& before, const Side& after, KernelTableBy by) {
  std::map<Key, DiffRow> rows;
  const auto take = [&](const Side& side, auto count, auto time) {
    for (const KernelRow& row : kernel_table(side.timeline, by)) {
      DiffRow& entry = rows[{std::string(row.label), std::string(row.name)}];
      entry.*count = as_real(row.count) / side.parts;
      entry.*time = as_real(row.total) / side.parts;
    }
  };
  take(before, &DiffRow::count_before, &DiffRow::ns_before);
  take(after, &DiffRow::count_after, &DiffRow::ns_after);
  std::vector<DiffRow> list;
  for (auto& [key, row] : rows) {
    row.label = key.first;
    row.name = key.second;
    list.push_back(std::move(row));
  }
  std::ranges::stable_sort(list, [](const DiffRow& a, const DiffRow& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return list;
}

/// Of every step from first begin to last end on the device, mean over ranks.
std::vector<std::optional<double>> step_spans(const run::Timeline& timeline,
                                              const TraceSteps& steps) {
  std::vector<std::optional<double>> spans(steps.steps.size());
  for_each_step(timeline, steps, [&](size_t i, const run::Timeline& step) {
    const auto ranks = breakdown_of_ranks(step);
    const double sum =
        sum_of(ranks, [](const RankBreakdown& rank) { return as_real(rank.span()); });
    if (!ranks.empty()) spans[i] = sum / as_real(ranks.size());
  });
  return spans;
}

std::vector<DiffStep> diff_steps(const TraceSteps& before, const TraceSteps& after,
                                 const run::Timeline& whole_before,
                                 const run::Timeline& whole_after) {
  const auto spans_before = step_spans(whole_before, before);
  const auto spans_after = step_spans(whole_after, after);
  std::vector<DiffStep> rows(std::max(spans_before.size(), spans_after.size()));
  for (size_t i = 0; i < spans_before.size(); ++i) {
    rows[i].name_before = before.steps[i].name;
    rows[i].ns_before = spans_before[i];
  }
  for (size_t i = 0; i < spans_after.size(); ++i) {
    rows[i].name_after = after.steps[i].name;
    rows[i].ns_after = spans_after[i];
  }
  return rows;
}

}  // namespace

TraceDiff diff_traces(const run::Timeline& before, const run::Timeline& after) {
  TraceSteps steps_before = find_steps(before), steps_after = find_steps(after);
  const bool per_step = !steps_before.steps.empty() && !steps_after.steps.empty();
  const Side a = side_of(before, std::move(steps_before), per_step);
  const Side b = side_of(after, std::move(steps_after), per_step);
  TraceDiff diff{.by_label = diff_tables(a, b, KernelTableBy::label),
                 .by_name = diff_tables(a, b, KernelTableBy::name),
                 .ranks_before = a.ranks,
                 .ranks_after = b.ranks,
                 .per_step = per_step};
  if (per_step) diff.steps = diff_steps(a.steps, b.steps, before, after);
  return diff;
}

}  // namespace triplepoint::metrics
