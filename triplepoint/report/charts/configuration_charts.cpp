// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <vector>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

constexpr double per_cent = 100;

std::optional<double> lowest_clock(const StudyRow& row) {
  if (!row.metrics || row.metrics->sm_clock_per_gpu_mhz.empty()) return std::nullopt;
  const std::vector<double>& clocks = row.metrics->sm_clock_per_gpu_mhz;
  return *std::ranges::min_element(clocks);
}

bool is_about_clocks(const Measure& measure) {
  return measure.id == "clock";
}

std::optional<double> peak_of(const Measure& measure, const StudyRow& row) {
  if (is_about_clocks(measure)) return lowest_clock(row);
  return measure.peak_key.empty() ? std::nullopt : number_at(row, measure.peak_key);
}

/// Whole numbers of thousands, three digits of others.
std::string digits_of(double value) {
  return significant(value, value >= 1000 ? 4 : 3);
}

std::string peak_name(const Measure& measure) {
  return is_about_clocks(measure) ? "slowest GPU" : "peak";
}

bool has_peak(const Measure& measure) {
  return is_about_clocks(measure) || !measure.peak_key.empty();
}

void fill_measure(const Measure& measure, const StudyRow& row, Bar& bar) {
  if (!row.metrics) return;
  const std::optional<double> mean = number_at(row, measure.key);
  if (!mean) {
    bar.status = "not known";
    return;
  }
  bar.parts = {{*mean, variant_style(row), ""}};
  bar.text = digits_of(*mean);
  bar.peak = peak_of(measure, row);
  bar.hint = fmt::format("{}: {} {}", full_label(row), bar.text, measure.unit);
  if (bar.peak) {
    const std::string peak = digits_of(*bar.peak);
    bar.text += " / " + peak;
    bar.hint += fmt::format(", {} {} {}", peak_name(measure), peak, measure.unit);
  }
}

std::string measure_title(const Measure& measure, const Group& group) {
  const std::vector<const StudyRow*> ran = group.that_ran();
  const StudyRow* best =
      measure.high_is_news ? highest(ran, measure.key) : lowest(ran, measure.key);
  const std::string title = answers::capitalized(measure.name);
  if (best == nullptr) return title + ": not known";
  return fmt::format("{}: {} {} ({} {})", title, full_label(*best), measure.superlative,
                     digits_of(known_number(*best, measure.key)), measure.unit);
}

DataTable measure_table(const Measure& measure, const Group& group) {
  DataTable table = titled_table({"job", measure.name + " (" + measure.unit + ")"});
  if (has_peak(measure))
    table.columns.push_back({.title = fmt::format("{} ({})", peak_name(measure), measure.unit)});
  for (const StudyRow* row : group.rows) {
    std::vector<DataCell> cells = {full_label(*row)};
    cells.push_back(row->metrics ? significant(number_at(*row, measure.key), 4)
                                 : std::string(name_of(row->verdict)));
    if (has_peak(measure))
      cells.push_back(row->metrics ? significant(peak_of(measure, *row), 4) : "");
    table.add(std::move(cells), row->name);
  }
  return table;
}

std::string measure_note(const Measure& measure, const BarChart& chart) {
  std::string note;
  if (has_peak(measure)) note = "Bar: mean over GPUs and time. ";
  note += is_about_clocks(measure) ? "Mark: the mean of the slowest GPU. " : measure.peak_words;
  if (chart.low != 0)
    note += fmt::format("The axis begins at {} {}. ", significant(chart.low), measure.unit);
  if (chart.limit) note += fmt::format("Dashed line: {}.", chart.limit_name);
  return note;
}

Drawing measure_figure(const Measure& measure, const Group& group) {
  BarChart chart;
  chart.title = measure_title(measure, group);
  chart.unit = fmt::format("{} ({})", measure.name, measure.unit);
  chart.bars =
      job_bars(group, [&](const StudyRow& row, Bar& bar) { fill_measure(measure, row, bar); });
  // A clock of half the usual would lie left of the axis.
  chart.low = measure.low;
  for (const Bar& bar : chart.bars)
    for (const BarPart& part : bar.parts)
      if (std::min(part.value, bar.peak.value_or(part.value)) < 1.1 * chart.low) chart.low = 0;
  const Watts limit = group.rows.front()->job.power_limit();
  if (measure.id == "power" && limit > Watts()) {
    chart.limit = limit / unit::W;
    chart.limit_name = fmt::format("power limit, {} W", significant(*chart.limit));
  }
  return {.id = measure.id + "-" + group.id,
          .title = chart.title,
          .note = measure_note(measure, chart),
          .markup = bar_chart_svg(chart),
          .table = measure_table(measure, group),
          .is_empty = !has_parts(chart)};
}

std::vector<Drawing> figures_of(const std::vector<Measure>& measures, const Group& group) {
  return mapped(measures, [&](const Measure& measure) { return measure_figure(measure, group); });
}

// ---- throttling

std::string style_of_reason(const std::string& reason) {
  if (reason == "software_power_cap") return "capped";
  if (reason == "software_thermal") return "hot";
  return reason == "hardware_thermal" ? "worse" : "k-other";
}

std::vector<std::string> reasons_of(const Group& group) {
  std::set<std::string> reasons;
  for (const StudyRow* row : group.that_ran())
    for (const auto& [reason, share] : row->metrics->throttle)
      if (share > 0) reasons.insert(reason);
  return {reasons.begin(), reasons.end()};
}

std::string throttle_title(const Group& group) {
  const StudyRow* worst = nullptr;
  double most = 0;
  bool known = false;
  for (const StudyRow* row : group.that_ran()) {
    const auto share = metrics::throttled_share(*row->metrics);
    known |= share.has_value();
    if (share.value_or(0) > most) most = *share, worst = row;
  }
  if (!known) return "Throttling: not known";
  if (worst == nullptr) return "Throttling: no clock is below the requested one";
  return fmt::format("Throttling: {} is throttled most ({} of the step)", full_label(*worst),
                     percent(most));
}

void fill_throttling(const std::vector<std::string>& reasons, const StudyRow& row, Bar& bar) {
  if (!row.metrics) return;
  const auto share = metrics::throttled_share(*row.metrics);
  if (!share) {
    bar.status = "not known";
    return;
  }
  bar.text = percent(*share);
  bar.hint = full_label(row) + ":";
  for (const std::string& reason : reasons) {
    const double share = number_at(row, "throttle." + reason).value_or(0);
    bar.parts.push_back({share * per_cent, style_of_reason(reason), ""});
    bar.hint += fmt::format(" {} {}", answers::throttle_reason_text(reason), percent(share));
  }
}

std::vector<LegendEntry> throttle_legend(const std::vector<std::string>& reasons) {
  return mapped(reasons, [](const std::string& reason) {
    return LegendEntry{style_of_reason(reason), answers::throttle_reason_text(reason)};
  });
}

}  // namespace

Drawing throttle_figure(const Group& group) {
  const std::vector<std::string> reasons = reasons_of(group);
  BarChart chart;
  chart.title = throttle_title(group);
  chart.unit = "time below the requested clock, mean over GPUs (%)";
  chart.cuts = false;
  DataTable table = titled_table({"job"});
  for (const std::string& reason : reasons)
    table.columns.push_back({.title = answers::throttle_reason_text(reason) + " (%)"});
  chart.bars =
      job_bars(group, [&](const StudyRow& row, Bar& bar) { fill_throttling(reasons, row, bar); });
  for (const StudyRow* row : group.rows) {
    std::vector<DataCell> cells = {full_label(*row)};
    for (const std::string& reason : reasons) {
      const auto share = number_at(*row, "throttle." + reason);
      cells.push_back(share          ? significant(*share * per_cent)
                      : row->metrics ? "–"
                                     : std::string(name_of(row->verdict)));
    }
    table.add(std::move(cells), row->name);
  }
  return {"throttle-" + group.id, chart.title,
          "Reasons that hold at once are in each of their parts; the number counts them once.",
          html_legend(throttle_legend(reasons)) + bar_chart_svg(chart), std::move(table)};
}

std::vector<Bar> job_bars(const Group& group,
                          const std::function<void(const StudyRow&, Bar&)>& fill) {
  std::vector<Bar> bars;
  const StudyRow* above = nullptr;
  for (const StudyRow* row : group.rows) {
    Bar& bar = bars.emplace_back();
    bar.job = row->name;
    bar.label = label_below(*row, above);
    bar.begins_group = begins_layout(*row, above);
    if (row->verdict == Verdict::oom) bar.status = "out of memory";
    if (row->verdict == Verdict::shutdown) bar.status = "shut down by heat";
    if (row->verdict == Verdict::invalid)
      bar.status = row->origin == run::Origin::measured ? "failed" : "invalid";
    if (!bar.status.empty()) bar.hint = full_label(*row) + ": " + bar.status;
    fill(*row, bar);
    above = row;
  }
  return bars;
}

std::vector<Drawing> speed_figures(const Group& group) {
  return figures_of(measures_of_speed(group.rows.front()->job.task), group);
}

std::vector<Drawing> heat_figures(const Group& group) {
  return figures_of(measures_of_heat(), group);
}

std::vector<LegendEntry> variant_legend(const Group& group) {
  std::vector<LegendEntry> legend;
  for (const StudyRow* row : group.rows) {
    const std::string style = variant_style(*row), options = options_label(*row);
    if (!holds(legend, style, &LegendEntry::style))
      legend.push_back({style, options.empty() ? "base" : options});
  }
  std::ranges::sort(legend, {}, &LegendEntry::style);
  return legend;
}

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
    auto sweep = std::ranges::find(sweeps, name, &Sweep::name);
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
  DataTable table = titled_table({"layout"});
  for (const std::string& position : chart.positions)
    table.columns.push_back({.title = "microbatch " + position});
  for (const Line& line : chart.lines) {
    std::vector<DataCell> cells = {line.name};
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

std::string sweep_title(const Measure& measure, const Move& most) {
  const std::string title = answers::capitalized(measure.name);
  if (most.line == nullptr) return title + ": not known";
  const std::string change = most.ratio >= 2   ? significant(most.ratio) + " times"
                             : most.ratio >= 1 ? "+" + percent(most.ratio - 1)
                                               : "−" + percent(1 - most.ratio);
  return fmt::format("{}: larger microbatches change {} most ({})", title, most.line->name, change);
}

Drawing sweep_figure(const Measure& measure, const Group& group, const std::vector<Sweep>& sweeps) {
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
  const Move most = largest_move(chart);
  chart.title = sweep_title(measure, most);
  return {.id = "microbatch-" + measure.id + "-" + group.id,
          .title = chart.title,
          .markup = line_chart_svg(chart),
          .table = line_table(chart),
          .is_empty = most.line == nullptr};
}

}  // namespace

std::vector<Drawing> microbatch_figures(const Group& group) {
  const std::vector<Sweep> sweeps = sweeps_of(group);
  std::vector<Drawing> figures;
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
