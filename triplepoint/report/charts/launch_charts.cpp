// SPDX-License-Identifier: Apache-2.0
// Thread blocks, warps and occupancy over configurations, by class of kernels.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

using metrics::Launches;
using Amount = std::optional<double> Launches::*;

constexpr double million = 1e6, per_cent = 100;

/// Classes in the order and the colours of kernel seconds.
struct ClassStyle {
  const char *label, *name, *style;
};
constexpr ClassStyle classes[] = {{"compute", "compute", "k-compute"},
                                  {"memory", "norms, elementwise, optimizer", "k-memory"},
                                  {"send_recv", "send/recv", "k-sendrecv"},
                                  {"all_reduce", "all-reduce", "k-allreduce"},
                                  {"all_gather", "all-gather", "k-allgather"},
                                  {"reduce_scatter", "reduce-scatter", "k-reducescatter"},
                                  {"all_to_all", "all-to-all", "k-alltoall"},
                                  {"other", "other", "k-other"}};

std::optional<double> amount_of(const StudyRow& row, const char* label, Amount amount) {
  if (!row.metrics) return std::nullopt;
  const auto found = row.metrics->launches.find(label);
  return found == row.metrics->launches.end() ? std::nullopt : found->second.*amount;
}

std::optional<double> total_of(const StudyRow& row, Amount amount) {
  return amount_of(row, "total", amount);
}

/// What a chart shows of launches.
struct Shown {
  const char *id, *name, *unit;
  Amount amount;
  double scale;
  const char* note;
};

const StudyRow* highest(const Group& group, Amount amount) {
  const StudyRow* most = nullptr;
  for (const StudyRow* row : group.that_ran())
    if (total_of(*row, amount) &&
        (most == nullptr || *total_of(*row, amount) > *total_of(*most, amount)))
      most = row;
  return most;
}

Bar bar_of(const Shown& shown, const StudyRow& row, const StudyRow* above) {
  Bar bar = empty_bar(row, above);
  if (!row.metrics) return bar;
  const std::optional<double> total = total_of(row, shown.amount);
  if (!total) {
    bar.status = "not known";
    return bar;
  }
  bar.text = significant(*total * shown.scale);
  bar.hint = fmt::format("{}: {} {}", full_label(row), bar.text, shown.unit);
  if (shown.amount == &Launches::occupancy) {
    bar.parts = {{*total * shown.scale, variant_style(row), ""}};
    return bar;
  }
  for (const ClassStyle& of : classes) {
    const double value = amount_of(row, of.label, shown.amount).value_or(0) * shown.scale;
    bar.parts.push_back(
        {value, of.style, fmt::format("{}: {} {}", of.name, significant(value), shown.unit)});
  }
  return bar;
}

Figure figure_of(const Shown& shown, const Group& group) {
  const StudyRow* most = highest(group, shown.amount);
  BarChart chart;
  chart.title =
      most == nullptr
          ? fmt::format("{}: not known", shown.name)
          : fmt::format("{}: highest in {} ({} {})", shown.name, full_label(*most),
                        significant(*total_of(*most, shown.amount) * shown.scale), shown.unit);
  chart.unit = shown.unit;
  DataTable table{{"job"}, {}};
  for (const ClassStyle& of : classes)
    table.columns.push_back(std::string(of.name));
  table.columns.push_back("all");
  const StudyRow* above = nullptr;
  for (const StudyRow* row : group.rows) {
    chart.bars.push_back(bar_of(shown, *row, above));
    above = row;
    if (!total_of(*row, shown.amount)) continue;
    std::vector<std::string> cells = {full_label(*row)};
    for (const ClassStyle& of : classes) {
      const auto value = amount_of(*row, of.label, shown.amount);
      cells.push_back(value ? significant(*value * shown.scale) : "–");
    }
    cells.push_back(significant(*total_of(*row, shown.amount) * shown.scale));
    table.add(std::move(cells), row->name);
  }
  std::vector<LegendEntry> legend;
  for (const ClassStyle& of : classes)
    legend.push_back({of.style, of.name});
  const bool is_stack = shown.amount != &Launches::occupancy;
  return {fmt::format("{}-{}", shown.id, group.id), chart.title, shown.note,
          (is_stack ? html_legend(legend) : "") + bar_chart_svg(chart), std::move(table)};
}

}  // namespace

std::vector<Figure> launch_figures(const Group& group) {
  constexpr const char* counted =
      "Of one GPU in a step, mean over the traced ranks. Simulated: of the tiles that the kernel "
      "model chooses, and block sizes that are conventions of libraries.";
  return {figure_of({"thread-blocks", "Thread blocks", "million thread blocks a GPU and step",
                     &Launches::blocks, 1 / million, counted},
                    group),
          figure_of({"warps", "Warps", "million warps a GPU and step", &Launches::warps,
                     1 / million, counted},
                    group),
          figure_of({"occupancy", "Occupancy while kernels run", "% of a compute unit's warps",
                     &Launches::occupancy, per_cent,
                     "Mean over all kernels, weighted by time; by class in the table."},
                    group)};
}

}  // namespace triplepoint::report
