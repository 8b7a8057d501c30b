// SPDX-License-Identifier: Apache-2.0
// Thread blocks, warps and occupancy over configurations, by class of kernels.
#include "triplepoint/report/charts/launch_charts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/charts/svg_sheet.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

using metrics::Launches;

const std::vector<LaunchMeasure>& launch_measures() {
  constexpr std::string_view counted =
      "Of one GPU in a step, mean over the traced ranks. Simulated: of the tiles that the kernel "
      "model chooses, and block sizes that are conventions of libraries.";
  static const std::vector<LaunchMeasure> measures = {
      {"thread-blocks", "blocks", "Thread blocks", "thread blocks a GPU and step",
       &Launches::blocks, counted},
      {"warps", "warps", "Warps", "warps a GPU and step", &Launches::warps, counted},
      {"occupancy", "occupancy", "Occupancy while kernels run", "% of a compute unit's warps",
       &Launches::occupancy,
       "Bar: mean over all kernels, weighted by time. Dots: classes of kernels."}};
  return measures;
}

const std::vector<LaunchClass>& launch_classes() {
  static const std::vector<LaunchClass> classes = {
      {"compute", "compute", "k-compute", ink::blue},
      {"memory", "norms, elementwise, optimizer", "k-memory", ink::sky},
      {"send_recv", "send/recv", "k-sendrecv", ink::green},
      {"all_reduce", "all-reduce", "k-allreduce", ink::yellow},
      {"all_gather", "all-gather", "k-allgather", ink::orange},
      {"reduce_scatter", "reduce-scatter", "k-reducescatter", ink::vermilion},
      {"all_to_all", "all-to-all", "k-alltoall", ink::purple},
      {"other", "other", "k-other", ink::grey}};
  return classes;
}

std::optional<double> launch_number(const LaunchRow& row, std::string_view label,
                                    const LaunchMeasure& measure) {
  if (row.launches == nullptr) return std::nullopt;
  const auto found = row.launches->find(std::string(label));
  return found == row.launches->end() ? std::nullopt : found->second.*measure.amount;
}

namespace {

std::optional<double> total_of(const LaunchRow& row, const LaunchMeasure& measure) {
  return launch_number(row, "total", measure);
}

/// What a number is multiplied by before it is drawn, and its unit then.
struct LaunchScale {
  double factor = 1;
  std::string unit;
  std::string text(double value) const { return significant(value * factor); }
};

/// Per cent; counts in millions, or less where all are small.
LaunchScale scale_of(const LaunchMeasure& measure, const std::vector<LaunchRow>& rows) {
  if (!measure.adds_up()) return {100, std::string(measure.unit)};
  double highest = 0;
  for (const LaunchRow& row : rows)
    highest = std::max(highest, total_of(row, measure).value_or(0));
  if (highest >= 1e6) return {1e-6, fmt::format("million {}", measure.unit)};
  if (highest >= 1e3) return {1e-3, fmt::format("thousand {}", measure.unit)};
  return {1, std::string(measure.unit)};
}

Bar bar_of(const LaunchMeasure& measure, const LaunchScale& scale, const LaunchRow& row) {
  Bar bar = row.bar;
  if (!bar.status.empty()) return bar;
  const std::optional<double> total = total_of(row, measure);
  if (!total) {
    bar.status = "not known";
    return bar;
  }
  bar.text = scale.text(*total);
  bar.hint = fmt::format("{}: {} {}", row.full_label, bar.text, scale.unit);
  if (!measure.adds_up()) {
    bar.parts = {{*total * scale.factor, row.style, ""}};
    bar.text = "mean " + bar.text;  // it stands behind the dots
  }
  for (const LaunchClass& of : launch_classes()) {
    const auto value = launch_number(row, of.label, measure);
    if (!value) continue;
    (measure.adds_up() ? bar.parts : bar.dots)
        .push_back({*value * scale.factor, std::string(of.style),
                    fmt::format("{}: {} {}", of.name, scale.text(*value), scale.unit)});
  }
  return bar;
}

std::string title_of(const LaunchMeasure& measure, const LaunchScale& scale,
                     const std::vector<LaunchRow>& rows) {
  const LaunchRow* most = nullptr;
  for (const LaunchRow& row : rows)
    if (total_of(row, measure) &&
        (most == nullptr || *total_of(row, measure) > *total_of(*most, measure)))
      most = &row;
  if (most == nullptr) return fmt::format("{}: not known", measure.name);
  return fmt::format("{}: highest in {} ({} {})", measure.name, most->full_label,
                     scale.text(*total_of(*most, measure)), scale.unit);
}

DataTable table_of(const LaunchMeasure& measure, const std::vector<LaunchRow>& rows) {
  const LaunchScale scale = scale_of(measure, rows);
  DataTable table{{"job"}, {}};
  for (const LaunchClass& of : launch_classes())
    table.columns.emplace_back(of.name);
  table.columns.emplace_back("all");
  for (const LaunchRow& row : rows) {
    const auto total = total_of(row, measure);
    if (!total) continue;
    std::vector<std::string> cells = {row.full_label};
    for (const LaunchClass& of : launch_classes()) {
      const auto value = launch_number(row, of.label, measure);
      cells.push_back(value ? scale.text(*value) : "–");
    }
    cells.push_back(scale.text(*total));
    table.add(std::move(cells), row.bar.job);
  }
  return table;
}

}  // namespace

BarChart launch_chart(const LaunchMeasure& measure, const std::vector<LaunchRow>& rows) {
  BarChart chart;
  const LaunchScale scale = scale_of(measure, rows);
  chart.title = title_of(measure, scale, rows);
  chart.unit = scale.unit;
  for (const LaunchRow& row : rows)
    chart.bars.push_back(bar_of(measure, scale, row));
  return chart;
}

std::vector<LaunchClass> classes_in(const std::vector<LaunchRow>& rows) {
  std::vector<LaunchClass> classes = launch_classes();
  std::erase_if(classes, [&](const LaunchClass& of) {
    return std::ranges::none_of(rows, [&](const LaunchRow& row) {
      return row.launches != nullptr && row.launches->contains(std::string(of.label));
    });
  });
  return classes;
}

std::vector<Figure> launch_figures(const Group& group) {
  std::vector<LaunchRow> rows;
  const StudyRow* above = nullptr;
  for (const StudyRow* row : group.rows) {
    rows.push_back({empty_bar(*row, above), full_label(*row), variant_style(*row),
                    row->metrics ? &row->metrics->launches : nullptr});
    above = row;
  }
  std::vector<LegendEntry> legend;
  for (const LaunchClass& of : classes_in(rows))
    legend.push_back({std::string(of.style), std::string(of.name)});
  std::vector<Figure> figures;
  for (const LaunchMeasure& measure : launch_measures()) {
    const BarChart chart = launch_chart(measure, rows);
    figures.push_back({fmt::format("{}-{}", measure.id, group.id), chart.title,
                       std::string(measure.note), html_legend(legend) + bar_chart_svg(chart),
                       table_of(measure, rows)});
  }
  return figures;
}

}  // namespace triplepoint::report
