// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_steps.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

DataCell overlap_percent(const RankBreakdown& rank) {
  if (const auto overlap = rank.overlap()) return 100 * *overlap;
  return Missing{"no communication"};
}

/// "host_wait 71": the largest class of idle time, in per cent of it.
DataCell idle_cause(const metrics::IdleTime& idle) {
  const std::pair<const char*, int64_t> classes[] = {{"host_wait", idle.host_wait},
                                                     {"kernel_wait", idle.kernel_wait},
                                                     {"other", idle.other},
                                                     {"unknown", idle.unknown}};
  const auto& most = *std::max_element(std::begin(classes), std::end(classes),
                                       [](auto& a, auto& b) { return a.second < b.second; });
  if (most.second == 0) return Missing{"never idle"};
  if (most.second == idle.unknown) return Missing{"most launches are not in the trace"};
  return fmt::format("{} {:.0f} %", most.first, percent(most.second, idle.total()));
}

std::vector<DataColumn> breakdown_columns() {
  return {{"span_ns", "span", 0, 1, true},
          {"compute_ns", "compute", 0, 1, true},
          {"exposed_communication_ns", "exposed comm", 0, 1, true},
          {"exposed_copy_ns", "exposed copy", 0, 1, true},
          {"idle_ns", "idle", 0, 1, true},
          {"communication_ns", "comm", 0, 1, true},
          {"overlap_percent", "overlap %", 1, 2, true},
          {"compute_percent", "compute %", 1, 1, true},
          {"idle_percent", "idle %", 1, 2, true},
          {"idle_cause", "idle: most of it"}};
}

/// What a flight recorder does not tell.
const DataCell not_recorded =
    Missing{"the dumps hold collectives only: what computed meanwhile is not known"};

std::vector<DataCell> breakdown_cells(const RankBreakdown& rank, bool of_collectives_only) {
  if (of_collectives_only)
    return {rank.span(),        not_recorded, not_recorded, not_recorded, not_recorded,
            rank.communication, not_recorded, not_recorded, not_recorded, not_recorded};
  return {rank.span(),
          rank.compute,
          rank.exposed_communication,
          rank.exposed_copy,
          rank.idle(),
          rank.communication,
          overlap_percent(rank),
          percent(rank.compute, rank.span()),
          percent(rank.idle(), rank.span()),
          idle_cause(rank.idle_time)};
}

DataTable rank_table(const run::Timeline& timeline, const std::vector<RankBreakdown>& ranks) {
  const bool partial = knows_collectives_only(timeline);
  DataTable table{.name = "ranks", .title = "Where the time went, by rank"};
  table.columns = breakdown_columns();
  table.columns.insert(table.columns.begin(), {"rank", "rank"});
  for (const RankBreakdown& rank : ranks) {
    std::vector<DataCell> cells = breakdown_cells(rank, partial);
    cells.insert(cells.begin(), int64_t{rank.rank});
    table.add(std::move(cells));
  }
  return in_one_unit(std::move(table));
}

DataTable idle_table(const std::vector<RankBreakdown>& ranks) {
  DataTable table{.name = "idle", .title = "Why nothing ran, by rank"};
  table.columns = {{"rank", "rank"},
                   {"busy_ns", "busy", 0, 1, true},
                   {"idle_ns", "idle", 0, 1, true},
                   {"host_wait_ns", "host wait", 0, 1, true},
                   {"kernel_wait_ns", "kernel wait", 0, 1, true},
                   {"other_ns", "other", 0, 1, true},
                   {"unknown_ns", "launch unknown", 0, 1, true}};
  for (const RankBreakdown& rank : ranks)
    table.add({int64_t{rank.rank}, rank.busy, rank.idle(), rank.idle_time.host_wait,
               rank.idle_time.kernel_wait, rank.idle_time.other, rank.idle_time.unknown});
  return in_one_unit(std::move(table));
}

std::vector<DataCell> kernel_cells(const metrics::KernelRow& row, int64_t all, bool by_name) {
  const bool copies = row.label == "copy";
  const char* none = copies ? "copies have none" : "the trace tells no grid";
  const bool grid = row.with_grid > 0;
  std::vector<DataCell> cells = {
      std::string(row.label),
      row.count,
      row.total,
      percent(row.total, all),
      as_real(row.total) / as_real(row.count),
      row.shortest,
      row.longest,
      grid ? DataCell(row.blocks) : Missing{none},
      grid ? DataCell(row.warps) : Missing{none},
      cell_of(row.occupancy, copies ? none : "the trace tells no occupancy")};
  if (by_name) cells.emplace_back(std::string(row.name));
  return cells;
}

DataTable kernel_data(const std::vector<metrics::KernelRow>& rows, bool by_name, size_t most) {
  const int64_t all = sum_of(rows, &metrics::KernelRow::total);
  DataTable table{.name = by_name ? "kernels" : "classes"};
  table.title =
      by_name ? fmt::format("Kernels ({} longest of {})", std::min(most, rows.size()), rows.size())
              : "Kernel classes, all ranks";
  table.columns = {{"class", "class"},
                   {"count", "count"},
                   {"total_ns", "total", 0, 1},
                   {"share_percent", "share %", 1, 1},
                   {"mean_ns", "mean us", 1e3, 1},
                   {"min_ns", "min us", 1e3, 1},
                   {"max_ns", "max us", 1e3, 1},
                   {"blocks", "blocks"},
                   {"warps", "warps"},
                   {"occupancy_percent", "occupancy %", 1, 1}};
  if (by_name) table.columns.push_back({"name", "name"});
  for (size_t i = 0; i < std::min(most, rows.size()); ++i)
    table.add(kernel_cells(rows[i], all, by_name));
  return in_one_unit(std::move(table));
}

DataTable step_table(const run::Timeline& timeline) {
  const metrics::TraceSteps steps = metrics::find_steps(timeline);
  std::vector<std::vector<RankBreakdown>> all(steps.steps.size());
  metrics::for_each_step(timeline, steps, [&](size_t i, const run::Timeline& step) {
    all[i] = metrics::breakdown_of_ranks(step);
  });
  const bool marked = steps.source == metrics::StepSource::annotations;
  DataTable table{
      .name = "steps",
      .title = marked ? "By step, as the trace marks them" : "By step, where the kernels repeat"};
  table.columns = breakdown_columns();
  for (DataColumn& column : table.columns)
    column.spread = false;
  table.columns.insert(table.columns.begin(),
                       {{"step", "step"}, {"rank", "rank"}, {"begin_ns", "begin ms", 1e6, 3}});
  for (size_t i = 0; i < all.size(); ++i)
    for (const RankBreakdown& rank : all[i]) {
      std::vector<DataCell> cells = breakdown_cells(rank, knows_collectives_only(timeline));
      cells.insert(cells.begin(),
                   {steps.steps[i].name, int64_t{rank.rank}, rank.begin.nanoseconds()});
      table.add(std::move(cells));
    }
  return in_one_unit(std::move(table));
}

/// How much of each kind of communication hides, as if it were the only one.
DataTable overlap_by_label(const run::Timeline& timeline) {
  std::map<std::string_view, metrics::RankBreakdown> labels;
  for (const run::SpanType& type : timeline.types)
    if (type.kind == run::SpanKind::communication) labels[metrics::label_of(type)] = {};
  run::Timeline only = timeline;
  for (auto& [label, sum] : labels) {
    only.types = timeline.types;
    for (run::SpanType& type : only.types)
      if (type.kind == run::SpanKind::communication && metrics::label_of(type) != label)
        type.kind = run::SpanKind::host;
    for (const RankBreakdown& rank : metrics::breakdown_of_ranks(only)) {
      sum.communication += rank.communication;
      sum.overlapped += rank.overlapped;
      sum.exposed_communication += rank.exposed_communication;
    }
  }
  DataTable table{.name = "overlap", .title = "Communication behind compute, all ranks"};
  table.columns = {{"collective", "collective"},
                   {"communication_ns", "comm", 0, 1},
                   {"overlapped_ns", "behind compute", 0, 1},
                   {"exposed_ns", "exposed", 0, 1},
                   {"overlap_percent", "overlap %", 1, 2}};
  for (const auto& [label, sum] : labels)
    if (sum.communication > 0)
      table.add({std::string(label), sum.communication, sum.overlapped, sum.exposed_communication,
                 overlap_percent(sum)});
  return in_one_unit(std::move(table));
}

tl::unexpected<Error> nothing_on_devices(const TraceInput& input) {
  if (metrics::find_hang(input.timeline()))
    return error(
        "no collective of the dumps has a measured length (TORCH_NCCL_ENABLE_TIMING=1 measures "
        "them), so no time is known; see who waits in what with trace stragglers");
  return error("nothing runs on a device in what was read ({}); name traces with kernels",
               input.remarks.empty() ? "host work alone has no breakdown"
                                     : fmt::format("{}", fmt::join(input.remarks, "; ")));
}

/// A process with several devices is one rank: what runs on one of them is no cover for another.
void add_devices(const run::Timeline& timeline, TraceReport& report) {
  std::map<int32_t, std::set<std::string_view>> devices;  // by rank, of kernels
  for (size_t i = 0; i < timeline.details.size(); ++i) {
    const int32_t lane = timeline.details[i].lane;
    const run::SpanKind kind = timeline.types[as_size(timeline.spans[i].type)].kind;
    if (lane < 0 || kind > run::SpanKind::other) continue;
    const std::string_view name = timeline.lanes[as_size(lane)].name;
    if (name.starts_with("device "))
      devices[timeline.spans[i].rank].insert(name.substr(0, name.find(" stream")));
  }
  for (const auto& [rank, names] : devices)
    if (names.size() > 1)
      return report.remarks.push_back(fmt::format(
          "rank {} has kernels on {} devices, whose times are united here: compute on one device "
          "counts as covering communication on another, which it does not",
          rank, names.size()));
}

/// Exposed communication of 0 is true only if none was overlooked.
void add_absence(const run::Timeline& timeline, TraceReport& report) {
  std::string said = metrics::absence_of_communication(timeline);
  if (said.ends_with('.')) said.pop_back();
  if (!said.empty()) report.remarks.push_back("n" + said.substr(1));
}

}  // namespace

Result<TraceReport> trace_breakdown(const TraceOptions& options) {
  const TraceInput input =
      TPT_TRY(read_traced_work(options.files, options, trace::HostSpans::launches));
  const run::Timeline& timeline = input.timeline();
  const auto ranks = metrics::breakdown_of_ranks(timeline);
  if (ranks.empty()) return nothing_on_devices(input);
  const auto classes =
      metrics::kernel_table(timeline, metrics::KernelTableBy::label, -1, input.warp_size);
  const auto kernels =
      metrics::kernel_table(timeline, metrics::KernelTableBy::name, -1, input.warp_size);
  TraceReport report{.shown = {"ranks", "classes", "kernels"}, .remarks = input.remarks};
  add_absence(timeline, report);
  add_devices(timeline, report);
  report.tables = {
      rank_table(timeline, ranks), kernel_data(classes, false, classes.size()),
      kernel_data(kernels, true, as_size(options.rows())),
      knows_collectives_only(timeline) ? DataTable{.name = "idle"} : idle_table(ranks)};
  const auto add_if_asked = [&](const char* name, const auto& make) {
    report.tables.push_back(options.asks_for(name) ? make() : DataTable{.name = name});
  };
  add_if_asked("steps", [&] { return step_table(timeline); });
  add_if_asked("overlap", [&] {
    return knows_collectives_only(timeline) ? DataTable{.name = "overlap"}
                                            : overlap_by_label(timeline);
  });
  return report;
}

}  // namespace triplepoint::trace_report
