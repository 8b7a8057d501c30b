// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/line_chart.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/keys.h"

namespace triplepoint::report {
namespace {

/// Jobs alike but for the microbatch size.
struct Sweep {
  std::string name;
  std::vector<const StudyRow*> rows;
};

std::vector<Sweep> sweeps_of(const Group& group) {
  std::vector<Sweep> sweeps;
  for (const StudyRow* row : group.rows) {
    if (!row->has_job) continue;
    const std::string options = options_label(*row);
    const std::string name = layout_label(*row) + (options.empty() ? "" : " + " + options);
    auto sweep =
        std::find_if(sweeps.begin(), sweeps.end(), [&](const Sweep& s) { return s.name == name; });
    if (sweep == sweeps.end()) sweep = sweeps.insert(sweeps.end(), {name, {}});
    sweep->rows.push_back(row);
  }
  std::erase_if(sweeps, [](const Sweep& sweep) {
    std::set<int64_t> sizes;
    for (const StudyRow* row : sweep.rows)
      if (row->metrics) sizes.insert(row->job.plan.micro_batch_size);
    return sizes.size() < 2;
  });
  return sweeps;
}

std::string sweep_style(std::size_t index) {
  return fmt::format("s{}", index % 8);
}

Line sweep_line(const Sweep& sweep, const std::vector<int64_t>& sizes, const std::string& key,
                std::size_t index) {
  Line line{sweep.name, sweep_style(index), {}, {}};
  for (int64_t size : sizes) {
    line.values.emplace_back();
    line.jobs.emplace_back();
    for (const StudyRow* row : sweep.rows) {
      if (!row->metrics || row->job.plan.micro_batch_size != size) continue;
      line.values.back() = number_at(*row, key);
      line.jobs.back() = row->name;
    }
  }
  return line;
}

DataTable line_table(const LineChart& chart) {
  DataTable table{{"layout"}, {}};
  for (const std::string& position : chart.positions)
    table.columns.push_back("microbatch " + position);
  for (const Line& line : chart.lines) {
    std::vector<std::string> cells = {line.name};
    for (const auto& value : line.values)
      cells.push_back(significant(value, 4));
    table.add(std::move(cells));
  }
  return table;
}

/// The line that moves most between its first and its last known value.
struct Move {
  const Line* line = nullptr;
  double ratio = 1;
};
Move largest_move(const LineChart& chart) {
  const auto strength = [](double ratio) { return std::max(ratio, 1 / ratio); };
  Move most;
  for (const Line& line : chart.lines) {
    std::vector<double> known;
    for (const auto& value : line.values)
      if (value) known.push_back(*value);
    if (known.size() < 2 || !(known.front() > 0) || !(known.back() > 0)) continue;
    const double ratio = known.back() / known.front();
    if (most.line == nullptr || strength(ratio) > strength(most.ratio)) most = {&line, ratio};
  }
  return most;
}

std::string sweep_title(const Measure& measure, const LineChart& chart) {
  const Move most = largest_move(chart);
  const std::string title = capitalized(measure.name);
  if (most.line == nullptr) return title + ": not known";
  const std::string change = most.ratio >= 2   ? significant(most.ratio) + " times"
                             : most.ratio >= 1 ? "+" + percent(most.ratio - 1)
                                               : "−" + percent(1 - most.ratio);
  return fmt::format("{}: larger microbatches change {} most ({})", title, most.line->name, change);
}

Figure sweep_figure(const Measure& measure, const Group& group, const std::vector<Sweep>& sweeps) {
  std::set<int64_t> sizes;
  for (const Sweep& sweep : sweeps)
    for (const StudyRow* row : sweep.rows)
      sizes.insert(row->job.plan.micro_batch_size);
  const std::vector<int64_t> positions(sizes.begin(), sizes.end());
  LineChart chart;
  chart.x_name = "microbatch size (sequences)";
  chart.y_unit = fmt::format("{} ({})", measure.name, measure.unit);
  chart.from_zero = measure.low == 0;
  for (int64_t size : positions)
    chart.positions.push_back(std::to_string(size));
  for (std::size_t i = 0; i < sweeps.size(); ++i)
    chart.lines.push_back(sweep_line(sweeps[i], positions, measure.key, i));
  chart.title = sweep_title(measure, chart);
  return {"microbatch-" + measure.id + "-" + group.id, chart.title, "", line_chart_svg(chart),
          line_table(chart)};
}

}  // namespace

std::vector<Figure> microbatch_figures(const Group& group) {
  const std::vector<Sweep> sweeps = sweeps_of(group);
  std::vector<Figure> figures;
  if (sweeps.empty()) return figures;
  for (const Measure& measure : measures_of_sweeps(group.rows.front()->job.task))
    figures.push_back(sweep_figure(measure, group, sweeps));
  return figures;
}

std::vector<LegendEntry> microbatch_legend(const Group& group) {
  std::vector<LegendEntry> legend;
  const std::vector<Sweep> sweeps = sweeps_of(group);
  for (std::size_t i = 0; i < sweeps.size(); ++i)
    legend.push_back({sweep_style(i), sweeps[i].name});
  return legend;
}

}  // namespace triplepoint::report
