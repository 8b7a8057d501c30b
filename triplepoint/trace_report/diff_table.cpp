// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/trace_diff.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

using metrics::DiffRow;

DataTable row_table(const std::vector<DiffRow>& rows, bool by_name, size_t most) {
  DataTable table{.name = by_name ? "kernels" : "classes",
                  .title = by_name ? fmt::format("Kernels ({} largest differences of {})",
                                                 std::min(most, rows.size()), rows.size())
                                   : "Kernel classes"};
  table.columns = {{"class", "class"},
                   {"before_ns", "before", 0, 2},
                   {"after_ns", "after", 0, 2},
                   {"difference_ns", "difference", 0, 2},
                   {"ratio", "after/before", 1, 3},
                   {"before_count", "count before", 1, 1},
                   {"after_count", "after", 1, 1}};
  if (by_name) table.columns.push_back({"name", "name"});
  const char* only = "only in one of the two";
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const DiffRow& row = rows[i];
    std::vector<DataCell> cells = {row.label, cell_of(row.ns_before, only),
                                   cell_of(row.ns_after, only), row.difference()};
    const bool ratio = row.ns_before && row.ns_after && *row.ns_before > 0;
    cells.push_back(ratio ? DataCell(*row.ns_after / *row.ns_before) : Missing{only});
    cells.push_back(cell_of(row.count_before, only));
    cells.push_back(cell_of(row.count_after, only));
    if (by_name) cells.emplace_back(row.name);
    table.add(std::move(cells));
  }
  return in_one_unit(std::move(table));
}

DataTable step_table(const metrics::TraceDiff& diff) {
  DataTable table{.name = "steps", .title = "Steps, on the device, mean over ranks"};
  table.columns = {{"before", "before"},
                   {"after", "after"},
                   {"before_ns", "before", 0, 2},
                   {"after_ns", "after", 0, 2},
                   {"difference_ns", "difference", 0, 2}};
  const char* only = "only in one of the two";
  for (const metrics::DiffStep& step : diff.steps)
    table.add({step.name_before, step.name_after, cell_of(step.ns_before, only),
               cell_of(step.ns_after, only),
               step.ns_before && step.ns_after ? DataCell(*step.ns_after - *step.ns_before)
                                               : Missing{only}});
  return in_one_unit(std::move(table));
}

struct Means {
  std::array<double, 6> parts{};
};
constexpr std::array part_names = {"span",           "compute", "exposed communication",
                                   "exposed copies", "idle",    "communication"};

Means means_of(const run::Timeline& timeline) {
  Means means;
  const auto ranks = metrics::breakdown_of_ranks(timeline);
  for (const metrics::RankBreakdown& rank : ranks) {
    const int64_t parts[] = {rank.span(),       rank.compute, rank.exposed_communication,
                             rank.exposed_copy, rank.idle(),  rank.communication};
    for (size_t i = 0; i < means.parts.size(); ++i)
      means.parts[i] += static_cast<double>(parts[i]) / static_cast<double>(ranks.size());
  }
  return means;
}

DataTable breakdown_table(const run::Timeline& before, const run::Timeline& after) {
  const Means a = means_of(before), b = means_of(after);
  DataTable table{.name = "breakdown",
                  .title = "Where the time went, mean over ranks, whole traces"};
  table.columns = {{"part", "part"},
                   {"before_ns", "before", 0, 2},
                   {"after_ns", "after", 0, 2},
                   {"difference_ns", "difference", 0, 2}};
  for (size_t i = 0; i < part_names.size(); ++i)
    table.add({std::string(part_names[i]), a.parts[i], b.parts[i], b.parts[i] - a.parts[i]});
  return in_one_unit(std::move(table));
}

}  // namespace

Result<TraceReport> trace_diff(const TraceOptions& options) {
  if (options.files.size() != 2)
    return error(
        fmt::format("diff compares two traces, {} were named; put the files of many ranks into a "
                    "folder or a tar for each side",
                    options.files.size()));
  const TraceInput before =
      TPT_TRY(read_traced_work({options.files[0]}, options, trace::HostSpans::launches));
  const TraceInput after =
      TPT_TRY(read_traced_work({options.files[1]}, options, trace::HostSpans::launches));
  const metrics::TraceDiff diff = metrics::diff_traces(before.timeline(), after.timeline());
  const auto most = static_cast<size_t>(options.rows());
  TraceReport report{.shown = {"breakdown", "classes", "kernels", "steps"}};
  report.headlines = {fmt::format(
      "before: {} ({} ranks), after: {} ({} ranks); kernels {}.", options.files[0],
      diff.ranks_before, options.files[1], diff.ranks_after,
      diff.per_step ? "per rank and step" : "per rank, whole traces (no steps in one of them)")};
  for (const TraceInput* side : {&before, &after})
    report.remarks.insert(report.remarks.end(), side->remarks.begin(), side->remarks.end());
  report.tables = {breakdown_table(before.timeline(), after.timeline()),
                   row_table(diff.by_label, false, diff.by_label.size()),
                   row_table(diff.by_name, true, most), step_table(diff)};
  return report;
}

}  // namespace triplepoint::trace_report
