// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/trace_diff.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"
#include "triplepoint/trace_report/operator_work.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

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

/// The changes that moved most, and the others in one row, so that all add up.
DataTable operator_table(const TraceInput& before, const TraceInput& after, size_t most) {
  DataTable table{.name = "operators", .title = "Operators, by how much they moved"};
  table.columns = {{"module", "module"},
                   {"operator", "operator"},
                   {"direction", "direction", 1, 0, false, Align::left, 2},
                   {"dtype", "dtype", 1, 0, false, Align::left, 3},
                   {"shapes", "shapes", 1, 0, false, Align::left, 4},
                   {"before_calls", "calls before", 1, 1, false, Align::right, 1},
                   {"after_calls", "after", 1, 1, false, Align::right, 1},
                   {"before_ns", "before", 0, 3},
                   {"after_ns", "after", 0, 3},
                   {"difference_ns", "difference", 0, 3},
                   {"before_flop_per_s", "TFLOP/s before", 1e12, 1},
                   {"after_flop_per_s", "after", 1e12, 1}};
  TraceSteps old_steps = find_steps(before.timeline()), new_steps = find_steps(after.timeline());
  if (old_steps.steps.empty() || new_steps.steps.empty()) old_steps = new_steps = {};
  const std::vector<OperatorChange> changes =
      changes_of(operator_uses(before, old_steps), operator_uses(after, new_steps));
  const auto number = [](const std::optional<OperatorUse>& use, double OperatorUse::*of) {
    return use ? DataCell((*use).*of) : Missing{"only in one of the two"};
  };
  const auto rate = [](const std::optional<OperatorUse>& use) {
    return use && use->timed > 0 ? DataCell(use->flops / use->timed * 1e9)
                                 : Missing{"its work is not known from shapes"};
  };
  const auto both = [](const OperatorChange& change, std::string OperatorUse::*of) {
    if (!change.before || !change.after)
      return (change.before ? *change.before : *change.after).*of;
    const std::string &old = (*change.before).*of, &now = (*change.after).*of;
    return old == now ? old : old + " -> " + now;
  };
  OperatorChange rest{OperatorUse{.name = "(all others)"}, OperatorUse{.name = "(all others)"}};
  const auto add = [&](const OperatorChange& change) {
    const OperatorUse& one = change.before ? *change.before : *change.after;
    table.add({one.module, one.name.empty() ? "(no operator)" : one.name, one.direction,
               both(change, &OperatorUse::type), both(change, &OperatorUse::shapes),
               number(change.before, &OperatorUse::calls),
               number(change.after, &OperatorUse::calls), number(change.before, &OperatorUse::time),
               number(change.after, &OperatorUse::time), change.difference(), rate(change.before),
               rate(change.after)});
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    if (i < most) {
      add(changes[i]);
      continue;
    }
    for (const auto of : {&OperatorUse::calls, &OperatorUse::time}) {
      if (changes[i].before) (*rest.before).*of += (*changes[i].before).*of;
      if (changes[i].after) (*rest.after).*of += (*changes[i].after).*of;
    }
  }
  if (changes.size() > most) add(rest);
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
      means.parts[i] += as_real(parts[i]) / as_real(ranks.size());
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
        "diff compares two traces, {} were named; put the files of many ranks into a "
        "folder or a tar for each side",
        options.files.size());
  const bool operators = options.compares_operators();
  TraceOptions as_given = options;
  if (operators) as_given.align = "never";  // they are told by their begin
  const auto host = operators ? trace::HostSpans::all : trace::HostSpans::launches;
  const TraceInput before = TPT_TRY(read_traced_work({options.files[0]}, as_given, host));
  const TraceInput after = TPT_TRY(read_traced_work({options.files[1]}, as_given, host));
  const metrics::TraceDiff diff = metrics::diff_traces(before.timeline(), after.timeline());
  const auto most = as_size(options.rows());
  TraceReport report{.shown = {"breakdown", "classes", "kernels", "steps"}};
  report.headlines = {fmt::format(
      "before: {} ({} ranks), after: {} ({} ranks); kernels {}.", options.files[0],
      diff.ranks_before, options.files[1], diff.ranks_after,
      diff.per_step ? "per rank and step" : "per rank, whole traces (no steps in one of them)")};
  for (const TraceInput* side : {&before, &after})
    report.remarks.insert(report.remarks.end(), side->remarks.begin(), side->remarks.end());
  report.tables = {
      breakdown_table(before.timeline(), after.timeline()),
      row_table(diff.by_label, false, diff.by_label.size()), row_table(diff.by_name, true, most),
      step_table(diff),
      operators ? operator_table(before, after, most) : DataTable{.name = "operators"}};
  for (const TraceInput* side : {&before, &after})
    if (operators && side->operators.empty())
      report.remarks.push_back(without_operators(options.files[side == &before ? 0 : 1]));
  return report;
}

}  // namespace triplepoint::trace_report
