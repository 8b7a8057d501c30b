// SPDX-License-Identifier: Apache-2.0
// A bar per job of a group: speed, energy, heat, throttling, use of links.
#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"

namespace triplepoint::report {
namespace {

constexpr double per_cent = 100;

/// The bar of a job before anything is known of it: its label, and why it has no value.
Bar empty_bar(const StudyRow& row, const StudyRow* above) {
  Bar bar{.label = label_below(row, above),
          .parts = {},
          .begins_group = begins_layout(row, above),
          .job = row.name};
  if (row.verdict == Verdict::ok) bar.status = "not known";
  if (row.verdict == Verdict::oom) bar.status = "out of memory";
  if (row.verdict == Verdict::shutdown) bar.status = "shut down by heat";
  if (row.verdict == Verdict::invalid)
    bar.status = row.origin == run::Origin::measured ? "failed" : "invalid";
  bar.hint = full_label(row) + ": " + bar.status;
  return bar;
}

}  // namespace

Figure job_figure(const Group& group, JobChart chart, const BarOf& bar_of) {
  DataTable table{{"job"}, {}};
  std::ranges::move(chart.columns, std::back_inserter(table.columns));
  const StudyRow* above = nullptr;
  for (const StudyRow* row : group.rows) {
    Bar& bar = chart.bars.bars.emplace_back(empty_bar(*row, above));
    above = row;
    std::vector<std::string> cells = {full_label(*row)};
    if (std::optional<JobBar> made = bar_of(*row)) {
      bar.parts = bar_parts_of(made->parts, chart.part_unit);
      bar.peak = made->peak;
      bar.text = std::move(made->text);
      bar.status = std::move(made->status);
      bar.hint = full_label(*row) + ": " + (bar.status.empty() ? bar.text : bar.status);
      std::ranges::move(made->cells, std::back_inserter(cells));
    } else {
      cells.push_back(bar.status);
    }
    cells.resize(table.columns.size());
    table.add(std::move(cells), row->name);
  }
  return {chart.id + "-" + group.id, chart.bars.title, std::move(chart.note),
          (chart.legend.empty() ? "" : html_legend(chart.legend)) + bar_chart_svg(chart.bars),
          std::move(table)};
}

namespace {

std::optional<double> lowest_clock(const StudyRow& row) {
  if (!row.metrics || row.metrics->sm_clock_per_gpu_mhz.empty()) return std::nullopt;
  return std::ranges::min(row.metrics->sm_clock_per_gpu_mhz);
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

bool has_peak(const Measure& measure) {
  return is_about_clocks(measure) || !measure.peak_key.empty();
}

std::string measure_title(const Measure& measure, const Group& group) {
  const std::vector<const StudyRow*> ran = group.that_ran();
  const StudyRow* best =
      measure.high_is_news ? highest(ran, measure.key) : lowest(ran, measure.key);
  const std::string title = capitalized(measure.name);
  if (best == nullptr) return title + ": not known";
  return fmt::format("{}: {} {} ({} {})", title, full_label(*best), measure.superlative,
                     digits_of(known_number(*best, measure.key)), measure.unit);
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

Figure measure_figure(const Measure& measure, const Group& group) {
  JobChart chart{.id = measure.id,
                 .bars = {.title = measure_title(measure, group),
                          .unit = fmt::format("{} ({})", measure.name, measure.unit),
                          .low = measure.low},
                 .columns = {fmt::format("{} ({})", measure.name, measure.unit)}};
  if (has_peak(measure))
    chart.columns.push_back(
        fmt::format("{} ({})", is_about_clocks(measure) ? "slowest GPU" : "peak", measure.unit));
  // A clock of half the usual would lie left of the axis.
  for (const StudyRow* row : group.that_ran())
    for (const auto& value : {number_at(*row, measure.key), peak_of(measure, *row)})
      if (value && *value < 1.1 * chart.bars.low) chart.bars.low = 0;
  const Watts limit = group.rows.front()->job.power_limit();
  if (measure.id == "power" && limit > Watts()) {
    chart.bars.limit = limit / unit::W;
    chart.bars.limit_name = fmt::format("power limit, {} W", significant(*chart.bars.limit));
  }
  chart.note = measure_note(measure, chart.bars);
  return job_figure(group, std::move(chart), [&](const StudyRow& row) -> std::optional<JobBar> {
    const auto value = number_at(row, measure.key);
    if (!value) return std::nullopt;
    JobBar bar{.parts = {{"", variant_style(row), *value}},
               .text = digits_of(*value),
               .peak = peak_of(measure, row),
               .cells = {significant(value, 4)}};
    if (bar.peak) bar.text += " / " + digits_of(*bar.peak);
    if (has_peak(measure)) bar.cells.push_back(significant(bar.peak, 4));
    return bar;
  });
}

std::vector<Figure> figures_of(const std::vector<Measure>& measures, const Group& group) {
  std::vector<Figure> figures;
  figures.reserve(measures.size());
  for (const Measure& measure : measures)
    figures.push_back(measure_figure(measure, group));
  return figures;
}

// ---- throttling

std::string style_of_reason(const std::string& reason) {
  if (reason == "software_power_cap") return "capped";
  if (reason == "software_thermal") return "hot";
  return reason == "hardware_thermal" ? "worse" : "k-other";
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

}  // namespace

Figure throttle_figure(const Group& group) {
  std::set<std::string> reasons;
  for (const StudyRow* row : group.that_ran())
    for (const auto& [reason, share] : row->metrics->throttle)
      if (share > 0) reasons.insert(reason);
  JobChart chart{
      .id = "throttle",
      .bars = {.title = throttle_title(group),
               .unit = "time below the requested clock, mean over GPUs (%)",
               .cuts = false},
      .note = "Reasons that hold at once are in each of their parts; the number counts them once.",
      .part_unit = "%"};
  for (const std::string& reason : reasons) {
    chart.columns.push_back(answers::throttle_reason_text(reason) + " (%)");
    chart.legend.push_back({style_of_reason(reason), answers::throttle_reason_text(reason)});
  }
  return job_figure(group, std::move(chart), [&](const StudyRow& row) -> std::optional<JobBar> {
    const auto all = row.metrics ? metrics::throttled_share(*row.metrics) : std::nullopt;
    if (!all) return std::nullopt;
    JobBar bar{.text = percent(*all)};
    for (const std::string& reason : reasons) {
      const double share = per_cent * number_at(row, "throttle." + reason).value_or(0);
      bar.parts.push_back({answers::throttle_reason_text(reason), style_of_reason(reason), share});
      bar.cells.push_back(significant(share));
    }
    return bar;
  });
}

std::vector<Figure> speed_figures(const Group& group) {
  return figures_of(measures_of_speed(group.rows.front()->job.task), group);
}

std::vector<Figure> heat_figures(const Group& group) {
  return figures_of(measures_of_heat(), group);
}

std::vector<Figure> link_figures(const Group& group) {
  struct Link {
    const char *id, *name, *key, *sent;
  };
  constexpr Link links[] = {
      {"scale-up", "links inside a node", "links.scale_up_utilization", "links.scale_up_bytes"},
      {"scale-out", "links between nodes", "links.scale_out_utilization", "links.scale_out_bytes"}};
  std::vector<Figure> figures;
  for (const Link& link : links) {
    const StudyRow* busiest = highest(group.that_ran(), link.key);
    if (busiest == nullptr) continue;
    JobChart chart{
        .id = link.id,
        .bars = {.title = fmt::format("Use of {}: {} uses most, {} of the bandwidth over its step",
                                      link.name, full_label(*busiest),
                                      percent(known_number(*busiest, link.key))),
                 .unit = "of the datasheet bandwidth, mean over the step (%)",
                 .cuts = false},
        .columns = {"use (%)", "sent per GPU and step (GB)"}};
    figures.push_back(
        job_figure(group, std::move(chart), [&](const StudyRow& row) -> std::optional<JobBar> {
          const auto use = number_at(row, link.key);
          if (!use) return std::nullopt;
          const double sent = number_at(row, link.sent).value_or(0) / 1e9;
          return JobBar{.parts = {{"", variant_style(row), *use * per_cent}},
                        .text = percent(*use),
                        .cells = {significant(*use * per_cent), significant(sent)}};
        }));
  }
  return figures;
}

std::vector<LegendEntry> variant_legend(const Group& group) {
  std::vector<LegendEntry> legend;
  for (const StudyRow* row : group.rows) {
    const std::string style = variant_style(*row), options = options_label(*row);
    if (std::ranges::find(legend, style, &LegendEntry::style) == legend.end())
      legend.push_back({style, options.empty() ? "base" : options});
  }
  std::ranges::sort(legend, {}, &LegendEntry::style);
  return legend;
}

}  // namespace triplepoint::report
