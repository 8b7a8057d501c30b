// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/configuration_charts.h"

#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "triplepoint/report/bar_chart.h"
#include "triplepoint/report/kernel_parts.h"
#include "triplepoint/report/labels.h"
#include "triplepoint/report/line_chart.h"
#include "triplepoint/report/number_text.h"

namespace triplepoint::report {
namespace {

using Value = std::function<std::optional<double>(const StudyRow&)>;

/// One question about a job that a chart answers.
struct Measure {
  std::string id, name, unit;
  Value mean, peak;          // peak may be empty
  bool high_is_news = true;  // the title names the highest; else the lowest
  double low = 0;            // where the axis begins
  std::string superlative;   // "is fastest"
};

std::optional<double> lowest_clock(const StudyRow& row) {
  const std::vector<double>& clocks = row.metrics->sm_clock_per_gpu_mhz;
  if (clocks.empty()) return std::nullopt;
  return *std::min_element(clocks.begin(), clocks.end());
}

std::vector<Measure> measures() {
  return {
      {"throughput",
       "throughput",
       "tokens/s",
       [](const StudyRow& r) { return r.metrics->tokens_per_second; },
       {},
       true,
       0,
       "is fastest"},
      {"energy",
       "energy",
       "J/token",
       [](const StudyRow& r) { return r.metrics->joules_per_token; },
       {},
       false,
       0,
       "needs least"},
      {"efficiency",
       "training efficiency",
       "samples/(s MJ)",
       [](const StudyRow& r) { return r.metrics->samples_per_s_mj; },
       {},
       true,
       0,
       "is best"},
      {"power", "power of a GPU, mean and peak", "W",
       [](const StudyRow& r) { return r.metrics->power_mean_w; },
       [](const StudyRow& r) { return r.metrics->power_peak_w; }, true, 0, "draws most"},
      {"temperature", "die temperature, mean and peak", "°C",
       [](const StudyRow& r) { return r.metrics->temperature_mean_c; },
       [](const StudyRow& r) { return r.metrics->temperature_peak_c; }, true, 20, "is hottest"},
      {"clock",
       "SM clock, mean over GPUs",
       "MHz",
       [](const StudyRow& r) { return r.metrics->sm_clock_mean_mhz; },
       {},
       false,
       1000,
       "is slowest"},
  };
}

Bar empty_bar(const StudyRow& row, const StudyRow* above) {
  Bar bar;
  bar.label = label_below(row, above);
  bar.begins_group = begins_layout(row, above);
  if (row.verdict == Verdict::oom) bar.status = "out of memory";
  if (row.verdict == Verdict::invalid) bar.status = "invalid";
  return bar;
}

Bar measure_bar(const Measure& measure, const StudyRow& row, const StudyRow* above) {
  Bar bar = empty_bar(row, above);
  if (!row.metrics) return bar;
  const std::optional<double> mean = measure.mean(row);
  if (!mean) {
    bar.status = "not known";
    return bar;
  }
  bar.parts = {{*mean, variant_style(row),
                fmt::format("{}: {} {}", full_label(row), significant(*mean), measure.unit)}};
  bar.text = significant(*mean, *mean >= 1000 ? 4 : 3);
  if (measure.peak) bar.peak = measure.peak(row);
  if (bar.peak) bar.text += " / " + significant(*bar.peak, 3);
  return bar;
}

std::string measure_title(const Measure& measure, const Group& group) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : group.that_ran()) {
    const auto value = measure.mean(*row);
    if (!value) continue;
    const double sign = measure.high_is_news ? 1 : -1;
    if (best == nullptr || sign * *value > sign * *measure.mean(*best)) best = row;
  }
  std::string title = measure.name;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  if (best == nullptr) return title;
  return fmt::format("{}: {} {} ({} {})", title, full_label(*best), measure.superlative,
                     significant(measure.mean(*best)), measure.unit);
}

DataTable measure_table(const Measure& measure, const Group& group) {
  DataTable table{{"job", measure.name + " (" + measure.unit + ")"}, {}};
  if (measure.peak) table.columns.push_back("peak (" + measure.unit + ")");
  if (measure.id == "clock") table.columns.push_back("slowest GPU (MHz)");
  for (const StudyRow* row : group.rows) {
    std::vector<std::string> cells = {full_label(*row)};
    cells.push_back(row->metrics ? significant(measure.mean(*row), 4)
                                 : std::string(name_of(row->verdict)));
    if (measure.peak) cells.push_back(row->metrics ? significant(measure.peak(*row), 4) : "");
    if (measure.id == "clock")
      cells.push_back(row->metrics ? significant(lowest_clock(*row), 4) : "");
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string measure_note(const Measure& measure, const BarChart& chart) {
  std::string note;
  if (measure.peak) note = "Bar: mean over GPUs and time. Mark: the highest reading of any GPU. ";
  if (chart.low != 0)
    note += fmt::format("The axis begins at {} {}. ", significant(chart.low), measure.unit);
  if (chart.limit) note += fmt::format("Rule: {}.", chart.limit_name);
  return note;
}

Figure measure_figure(const Measure& measure, const Group& group) {
  BarChart chart;
  chart.title = measure_title(measure, group);
  chart.unit = fmt::format("{} ({})", measure.name, measure.unit);
  const StudyRow* above = nullptr;
  for (const StudyRow* row : group.rows) {
    chart.bars.push_back(measure_bar(measure, *row, above));
    above = row;
  }
  // A clock of half the usual would lie left of the axis.
  chart.low = measure.low;
  for (const Bar& bar : chart.bars)
    for (const BarPart& part : bar.parts)
      if (part.value < 1.1 * chart.low) chart.low = 0;
  const Watts limit = group.rows.front()->job.power_limit();
  if (measure.id == "power" && limit > Watts()) {
    chart.limit = limit / unit::W;
    chart.limit_name = fmt::format("power limit, {} W", significant(*chart.limit));
  }
  return {measure.id + "-" + group.id, chart.title, measure_note(measure, chart),
          bar_chart_svg(chart), measure_table(measure, group)};
}

void add_kernel_row(DataTable& table, const StudyRow& row) {
  std::vector<std::string> cells = {full_label(row)};
  for (const NamedPart& part : kernel_parts(row.metrics->kernels))
    cells.push_back(significant(part.value));
  cells.push_back(significant(row.metrics->kernels.waiting / unit::s));
  cells.push_back(significant(row.metrics->kernels.total() / unit::s));
  table.rows.push_back(std::move(cells));
}

// ---- microbatch sweep

/// Jobs alike but for the microbatch size.
struct Sweep {
  std::string name;
  std::vector<const StudyRow*> rows;
};

std::vector<Sweep> sweeps_of(const Group& group) {
  std::vector<Sweep> sweeps;
  for (const StudyRow* row : group.rows) {
    const std::string variant = variant_label(row->job);
    const std::string name =
        configuration_label(row->job) + (variant == "base" ? "" : " + " + variant);
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

Line sweep_line(const Sweep& sweep, const std::vector<int64_t>& sizes, const Value& value,
                std::size_t index) {
  Line line{sweep.name, sweep_style(index), {}};
  for (int64_t size : sizes) {
    std::optional<double> found;
    for (const StudyRow* row : sweep.rows)
      if (row->metrics && row->job.plan.micro_batch_size == size) found = value(*row);
    line.values.push_back(found);
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
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string sweep_title(const Measure& measure, const LineChart& chart) {
  const auto moves = [&](bool up) {
    return std::count_if(chart.lines.begin(), chart.lines.end(), [up](const Line& line) {
      std::vector<double> known;
      for (const auto& value : line.values)
        if (value) known.push_back(*value);
      return known.size() > 1 && (known.back() > known.front()) == up;
    });
  };
  std::string title = measure.name;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return fmt::format("{}: larger microbatches raise it for {} of {} layouts", title, moves(true),
                     chart.lines.size());
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
    chart.lines.push_back(sweep_line(sweeps[i], positions, measure.mean, i));
  chart.title = sweep_title(measure, chart);
  return {"microbatch-" + measure.id + "-" + group.id, chart.title, "", line_chart_svg(chart),
          line_table(chart)};
}

std::vector<Measure> sweep_measures() {
  return {{"throughput",
           "throughput",
           "tokens/s",
           [](const StudyRow& r) { return r.metrics->tokens_per_second; },
           {}},
          {"efficiency",
           "training efficiency",
           "samples/(s MJ)",
           [](const StudyRow& r) { return r.metrics->samples_per_s_mj; },
           {}},
          {"peak-power",
           "peak power",
           "W",
           [](const StudyRow& r) { return r.metrics->power_peak_w; },
           {},
           true,
           100},
          {"peak-temperature",
           "peak die temperature",
           "°C",
           [](const StudyRow& r) { return r.metrics->temperature_peak_c; },
           {},
           true,
           20}};
}

}  // namespace

std::vector<Figure> measure_figures(const Group& group) {
  std::vector<Figure> figures;
  for (const Measure& measure : measures())
    figures.push_back(measure_figure(measure, group));
  return figures;
}

Figure kernel_figure(const Group& group) {
  BarChart chart;
  chart.unit = "kernel seconds of one step, mean over GPUs (s)";
  DataTable table{{"job"}, {}};
  for (const NamedPart& part : kernel_parts({}))
    table.columns.push_back(part.name + " (s)");
  table.columns.insert(table.columns.end(), {"of it waiting (s)", "total (s)"});
  const StudyRow *above = nullptr, *least = nullptr;
  for (const StudyRow* row : group.rows) {
    Bar bar = empty_bar(*row, above);
    if (row->metrics) {
      bar.parts = bar_parts_of(kernel_parts(row->metrics->kernels), "s");
      bar.text = significant(row->metrics->kernels.total() / unit::s);
      add_kernel_row(table, *row);
      if (least == nullptr || row->metrics->kernels.total() < least->metrics->kernels.total())
        least = row;
    }
    chart.bars.push_back(std::move(bar));
    above = row;
  }
  chart.title = "Where kernel time goes";
  if (least != nullptr) {
    const metrics::KernelSeconds& kernels = least->metrics->kernels;
    chart.title += fmt::format(": least in {} ({} s, of which {} compute)", full_label(*least),
                               significant(kernels.total() / unit::s),
                               percent(kernels.compute / kernels.total()));
  }
  return {"kernels-" + group.id, chart.title,
          "Waiting for a late peer is inside the collective's kernel, as NCCL shows it; kernels "
          "that overlap count twice. A cut bar goes on.",
          bar_chart_svg(chart), std::move(table)};
}

Figure memory_figure(const Group& group) {
  BarChart chart;
  chart.unit = "memory of the fullest GPU (GiB)";
  DataTable table{{"job", "verdict", "fullest stage"}, {}};
  for (const NamedPart& part : memory_parts({}))
    table.columns.push_back(part.name + " (GiB)");
  table.columns.push_back("total (GiB)");
  const StudyRow* above = nullptr;
  int64_t full = 0;
  for (const StudyRow* row : group.rows) {
    Bar bar = empty_bar(*row, above);
    above = row;
    if (const auto stage = worst_stage(*row)) {
      const std::vector<NamedPart> parts = memory_parts(row->memory[*stage]);
      const std::string total = significant(row->memory[*stage].total() / unit::GiB);
      bar.parts = bar_parts_of(parts, "GiB");
      bar.text = total;
      if (row->verdict == Verdict::oom) bar.status = total + " OOM", ++full;
      if (row->memory_limit) chart.limit = *row->memory_limit / unit::GiB;
      std::vector<std::string> cells = {full_label(*row), std::string(name_of(row->verdict)),
                                        std::to_string(*stage)};
      for (const NamedPart& part : parts)
        cells.push_back(significant(part.value));
      cells.push_back(total);
      table.rows.push_back(std::move(cells));
    }
    chart.bars.push_back(std::move(bar));
  }
  chart.title = fmt::format("Memory: {} of {} jobs do not fit", full, group.rows.size());
  if (chart.limit)
    chart.limit_name = fmt::format("{} GiB of device memory", significant(*chart.limit, 4));
  return {"memory-" + group.id, chart.title,
          chart.limit ? "Rule: " + chart.limit_name + ", as the driver reports it." : "",
          bar_chart_svg(chart), std::move(table)};
}

std::vector<Figure> microbatch_figures(const Group& group) {
  const std::vector<Sweep> sweeps = sweeps_of(group);
  std::vector<Figure> figures;
  if (sweeps.empty()) return figures;
  for (const Measure& measure : sweep_measures())
    figures.push_back(sweep_figure(measure, group, sweeps));
  return figures;
}

std::vector<LegendEntry> microbatch_legend(const Group& group) {
  const std::vector<Sweep> sweeps = sweeps_of(group);
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < sweeps.size(); ++i)
    legend.push_back({sweep_style(i), sweeps[i].name});
  return legend;
}

std::vector<LegendEntry> variant_legend(const Group& group) {
  std::vector<LegendEntry> legend;
  for (const StudyRow* row : group.rows) {
    const LegendEntry entry{variant_style(*row), variant_label(row->job)};
    const bool known = std::any_of(legend.begin(), legend.end(),
                                   [&](const LegendEntry& e) { return e.style == entry.style; });
    if (!known) legend.push_back(entry);
  }
  return legend;
}

std::vector<LegendEntry> kernel_legend() {
  return legend_of(kernel_parts({}));
}

std::vector<LegendEntry> memory_legend() {
  return legend_of(memory_parts({}));
}

}  // namespace triplepoint::report
