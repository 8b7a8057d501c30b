// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/compare_page.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/energy_and_power.h"
#include "triplepoint/report/charts/heat_map.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/ratio_charts.h"
#include "triplepoint/report/compare/compare.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

/// "TP8", or "TP8, node 3" where bars of several sides mix.
std::string label_of(const Comparison& c, std::size_t side, const std::string& what) {
  return c.sides.size() == 2 ? what : fmt::format("{}, {}", what, c.sides[side].name);
}

double relative_of(const ComparedRow& row, std::size_t side) {
  const auto by = difference(row, side);
  return by && by->relative ? *by->relative : 0;
}

DataTable table_of(const Comparison& c, const std::vector<const ComparedRow*>& rows) {
  DataTable table{{"number"}, {}};
  for (std::size_t i = 0; i < c.sides.size(); ++i) {
    table.columns.push_back(c.sides[i].name);
    if (i > 0) table.columns.push_back("difference");
  }
  for (const ComparedRow* row : rows) {
    std::vector<std::string> cells = {
        row->unit.empty() ? row->title : fmt::format("{} ({})", row->title, row->unit)};
    for (std::size_t i = 0; i < c.sides.size(); ++i) {
      cells.push_back(row->value_text(i));
      if (i > 0) cells.push_back(difference_text(*row, i));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<const ComparedRow*> rows_of(const Comparison& c, const std::string& section) {
  std::vector<const ComparedRow*> rows;
  for (const ComparedSection& each : c.sections)
    for (const ComparedRow& row : each.rows)
      if (each.name == section) rows.push_back(&row);
  return rows;
}

Bar kernel_bar(const metrics::KernelSeconds& kernels, std::string label) {
  Bar bar;
  bar.label = std::move(label);
  bar.parts = bar_parts_of(kernel_parts(kernels), "s");
  bar.text = significant(kernels.total() / unit::s);
  return bar;
}

Figure gpu_figure(const Comparison& c, std::vector<double> metrics::Metrics::*list,
                  const char* name, const char* unit_name) {
  HeatMap map;
  map.unit = unit_name;
  map.per_node = 1;
  DataTable table{{"run"}, {}};
  for (const Side& side : c.sides) {
    const std::vector<double>& values = side.metrics.*list;
    if (values.empty()) continue;
    map.rows.push_back({side.name, values});
    map.per_node = std::max(map.per_node, side.gpus_per_node);
    while (table.columns.size() <= values.size())
      table.columns.push_back(fmt::format("GPU {} ({})", table.columns.size() - 1, unit_name));
    std::vector<std::string> cells = {side.name};
    for (double value : values)
      cells.push_back(significant(value, 4));
    table.rows.push_back(std::move(cells));
  }
  for (auto& row : table.rows)
    row.resize(table.columns.size());
  if (map.rows.empty()) return {};
  map.title = fmt::format("{} of every GPU", name);
  return {fmt::format("gpus-{}", unit_name == std::string("°C")  ? "temperature"
                                 : unit_name == std::string("W") ? "power"
                                                                 : "clock"),
          map.title,
          "A row is a run, a column a GPU.",
          heat_map_svg(map),
          std::move(table),
          true};
}

/// What changed most visibly: one bar per number that matters and side.
Figure headline_figure(const Comparison& c) {
  std::vector<const ComparedRow*> rows;
  for (const char* key :
       {"step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "joules_per_token", "power_mean_w",
        "power_peak_w", "sm_clock_mean_mhz", "exposed_communication_s", "memory_gib"})
    if (const ComparedRow* row = c.find(key)) rows.push_back(row);
  std::vector<DifferenceBar> bars;
  for (const ComparedRow* row : rows)
    for (std::size_t i = 1; i < c.sides.size(); ++i)
      if (difference(*row, i))
        bars.push_back({label_of(c, i, row->title), relative_of(*row, i), difference_text(*row, i),
                        judgement(*row, i), i == 1 && c.sides.size() > 2});
  if (bars.empty()) return {};
  const std::string title = c.sides.size() == 2
                                ? fmt::format("{} against {}", c.sides[1].name, c.sides[0].name)
                                : fmt::format("Against {}", c.sides[0].name);
  return {"differences", title, "Length: change in per cent; colour: improvement or regression.",
          html_legend(difference_legend()) + difference_chart_svg(title, "against the first", bars),
          table_of(c, rows)};
}

/// Kernel seconds by class: a bar per side; and one per stage and side.
Figure kernels_figure(const Comparison& c) {
  const std::vector<const ComparedRow*> rows = rows_of(c, "kernels");
  if (rows.empty()) return {};
  BarChart chart{.title = "Kernel seconds of a GPU in one step",
                 .unit = "kernel seconds, mean over GPUs (s)",
                 .bars = {},
                 .cuts = false};
  for (const Side& side : c.sides)
    chart.bars.push_back(kernel_bar(side.metrics.kernels, side.name));
  if (const ComparedRow* total = c.find("kernel_total_s"); total && c.sides.size() == 2)
    if (const auto by = difference(*total, 1))
      chart.title = fmt::format("Kernel seconds of a GPU: {} ({})", difference_text(*total, 1),
                                total->value_text(1) + " against " + total->value_text(0) + " s");
  return {"kernels", chart.title,
          "Waiting for a late peer is inside the collective's kernel, as NCCL shows it.",
          html_legend(legend_of(kernel_parts({}))) + bar_chart_svg(chart), table_of(c, rows)};
}

Figure stages_figure(const Comparison& c) {
  const std::vector<const ComparedRow*> rows = rows_of(c, "stages");
  if (rows.empty()) return {};
  BarChart chart{.title = "Kernel seconds of each pipeline stage",
                 .unit = "kernel seconds, mean over the stage's GPUs (s)",
                 .bars = {},
                 .cuts = false};
  std::size_t most = 0;
  for (const Side& side : c.sides)
    most = std::max(most, side.metrics.stages.size());
  for (std::size_t stage = 0; stage < most; ++stage) {
    bool first = true;
    for (const Side& side : c.sides) {
      if (stage >= side.metrics.stages.size()) continue;
      chart.bars.push_back(kernel_bar(side.metrics.stages[stage].kernels,
                                      fmt::format("stage {}, {}", stage, side.name)));
      chart.bars.back().begins_group = first;
      first = false;
    }
  }
  return {"stages", chart.title, "",
          html_legend(legend_of(kernel_parts({}))) + bar_chart_svg(chart), table_of(c, rows)};
}

/// GPUs from left to right, a row per side.
std::vector<Figure> gpu_figures(const Comparison& c) {
  std::vector<Figure> figures = {
      gpu_figure(c, &metrics::Metrics::temperature_per_gpu_c, "Temperature", "°C"),
      gpu_figure(c, &metrics::Metrics::power_per_gpu_w, "Power", "W"),
      gpu_figure(c, &metrics::Metrics::sm_clock_per_gpu_mhz, "SM clock", "MHz")};
  std::erase_if(figures, [](const Figure& figure) { return figure.drawing.empty(); });
  return figures;
}

/// Length of every step.
Figure steps_figure(const Comparison& c) {
  constexpr std::size_t most_steps = 400, most_names = 12;
  std::size_t steps = 0;
  for (const Side& side : c.sides)
    steps = std::max(steps, side.step_s.size());
  if (steps < 2) return {};
  const std::size_t drawn = std::min(steps, most_steps);
  const std::size_t every = (drawn + most_names - 1) / most_names;
  LineChart chart{"Length of every step", "step", "step time (s)", {}, {}, false};
  DataTable table{{"step"}, {}};
  for (std::size_t i = 0; i < drawn; ++i) {
    chart.positions.push_back(i % every == 0 ? std::to_string(i + 1) : "");
    table.rows.push_back({std::to_string(i + 1)});
  }
  std::vector<LegendEntry> legend;
  for (std::size_t s = 0; s < c.sides.size(); ++s) {
    Line line{c.sides[s].name, fmt::format("s{}", s % 8), {}};
    for (std::size_t i = 0; i < drawn; ++i) {
      const auto& all = c.sides[s].step_s;
      line.values.push_back(i < all.size() ? std::optional(all[i]) : std::nullopt);
      table.rows[i].push_back(significant(line.values.back(), 4));
    }
    table.columns.push_back(c.sides[s].name + " (s)");
    legend.push_back({line.style, line.name});
    chart.lines.push_back(std::move(line));
  }
  return {"steps", chart.title,
          drawn < steps ? fmt::format("The first {} of {}.", drawn, steps) : "",
          html_legend(legend) + line_chart_svg(chart), std::move(table)};
}

/// Energy of a step by use, a bar per side.
Figure ledger_figure(const Comparison& c) {
  std::vector<NamedLedger> ledgers;
  for (const Side& side : c.sides)
    if (!side.metrics.energy_ledger_j.empty())
      ledgers.push_back({side.name, &side.metrics.energy_ledger_j});
  return ledgers.empty() ? Figure{} : energy_ledger_figure(ledgers);
}

/// Step time of each job against the first study, sorted.
Figure jobs_figure(const StudyComparison& c, std::size_t side) {
  constexpr std::size_t most_bars = 60;
  std::vector<DifferenceBar> bars;
  DataTable table{{"job", c.names[0] + " (s)", c.names[side] + " (s)", "difference"}, {}};
  for (const ComparedJob& job : c.jobs) {
    const ComparedRow* row = job.numbers.find("step_time_s");
    if (row == nullptr || !difference(*row, side)) continue;
    bars.push_back({job.name, relative_of(*row, side), difference_text(*row, side),
                    judgement(*row, side), false});
    table.rows.push_back(
        {job.name, row->value_text(0), row->value_text(side), difference_text(*row, side)});
  }
  if (bars.empty()) return {};
  std::stable_sort(bars.begin(), bars.end(), [](const DifferenceBar& a, const DifferenceBar& b) {
    return std::abs(a.relative) > std::abs(b.relative);
  });
  const std::size_t all = bars.size();
  bars.resize(std::min(all, most_bars));
  std::stable_sort(bars.begin(), bars.end(), [](const DifferenceBar& a, const DifferenceBar& b) {
    return a.relative > b.relative;
  });
  const auto mean = c.mean_ratio("step_time_s", side);
  const std::string title = fmt::format(
      "Step time in {} against {}: {} of {} jobs are slower, geometric mean {}{} %", c.names[side],
      c.names[0],
      std::count_if(bars.begin(), bars.end(), [](const auto& bar) { return bar.judgement < 0; }),
      all, mean->ratio >= 1 ? "+" : "−", significant(100 * std::abs(mean->ratio - 1), 2));
  return {fmt::format("jobs-{}", side),
          title,
          all > most_bars ? fmt::format("The {} jobs that changed most.", most_bars) : "",
          html_legend(difference_legend()) + difference_chart_svg(title, "against the first", bars),
          std::move(table),
          true};
}

std::string header(const char* kicker, const std::string& title, const std::string& facts) {
  return fmt::format(
      "<header><p class=\"kicker\">{}</p><h1>{}</h1><p class=\"facts\">{}</p></header>\n", kicker,
      escape(title), escape(facts));
}

std::string findings(const std::vector<std::string>& sentences) {
  std::string html =
      "<section aria-labelledby=\"findings\"><h2 id=\"findings\">What changed</h2><ol "
      "class=\"findings\">";
  for (const std::string& sentence : sentences)
    html += "<li>" + escape(sentence) + "</li>";
  return html + "</ol></section>\n";
}

std::string section(const std::string& id, const std::string& heading, const std::string& inside) {
  if (inside.empty()) return "";
  return fmt::format("<section aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2>", id,
                     escape(heading)) +
         inside + "</section>\n";
}

std::string figures(const std::vector<Figure>& all) {
  std::string html;
  for (const Figure& figure : all)
    if (!figure.drawing.empty()) html += html_figure(figure);
  if (html.empty()) return "";
  // Wider than elsewhere: the bars have long labels.
  return "<div class=\"figures\" style=\"grid-template-columns:repeat(auto-fit,minmax(min(100%,"
         "500px),1fr))\">" +
         html + "</div>";
}

std::string settings_table(const Comparison& c) {
  if (c.settings.empty()) return "";
  DataTable table{{"setting"}, {}};
  for (const Side& side : c.sides)
    table.columns.push_back(side.name);
  for (const auto& [name, values] : c.settings) {
    std::vector<std::string> cells = {name};
    cells.insert(cells.end(), values.begin(), values.end());
    table.rows.push_back(std::move(cells));
  }
  return html_table(table, "Configuration differences");
}

std::vector<std::string> number_columns(const std::vector<std::string>& names) {
  std::vector<std::string> columns = {"number"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns.push_back(names[i]);
    if (i > 0) columns.push_back(names.size() == 2 ? "difference" : names[i] + ", difference");
  }
  return columns;
}

std::string section_table(const Comparison& c, const ComparedSection& of,
                          const std::vector<std::string>& names) {
  DataTable table{number_columns(names), {}};
  for (const ComparedRow& row : of.rows) {
    std::vector<std::string> cells = {
        row.unit.empty() ? row.title : fmt::format("{} ({})", row.title, row.unit)};
    for (std::size_t i = 0; i < c.sides.size(); ++i) {
      std::string value = row.value_text(i);
      if (!row.whose.empty() && !row.whose[i].empty()) value += ", " + row.whose[i];
      cells.push_back(std::move(value));
      if (i > 0) cells.push_back(difference_text(row, i));
    }
    table.rows.push_back(std::move(cells));
  }
  return html_table(table, of.title);
}

std::string all_numbers(const Comparison& c, const std::vector<std::string>& names) {
  std::string html;
  for (const ComparedSection& of : c.sections) {
    const bool is_long = of.name == "stages";
    if (is_long) html += "<details class=\"data\"><summary>" + escape(of.title) + "</summary>";
    html += section_table(c, of, names);
    if (is_long) html += "</details>";
  }
  return html;
}

std::string facts_of(const Comparison& c) {
  std::vector<std::string> facts;
  facts.reserve(c.sides.size());
  for (const Side& side : c.sides)
    facts.push_back(fmt::format("{}: {}, {} GPUs", side.name, side.origin, side.num_gpus));
  return fmt::format("{}. Differences are against {}.", fmt::join(facts, "; "), c.sides[0].name);
}

std::string title_of(const std::vector<std::string>& names) {
  std::vector<std::string> others(names.begin() + 1, names.end());
  return fmt::format("{} against {}", fmt::join(others, ", "), names[0]);
}

struct ShownNumber {
  const char *key, *title;
};
constexpr ShownNumber shown_numbers[] = {{"step_time_s", "step (s)"},
                                         {"energy_j", "energy (MJ)"},
                                         {"power_mean_w", "power (W)"},
                                         {"temperature_peak_c", "peak (°C)"},
                                         {"sm_clock_mean_mhz", "clock (MHz)"}};

std::vector<std::string> job_columns(const std::vector<std::string>& names) {
  std::vector<std::string> columns = {"job"};
  for (const std::string& name : names)
    columns.push_back(name + ": verdict");
  for (const ShownNumber& number : shown_numbers)
    for (std::size_t i = 0; i < names.size(); ++i) {
      columns.push_back(names[i] + ": " + number.title);
      if (i > 0) columns.emplace_back("difference");
    }
  return columns;
}

std::vector<std::string> job_cells(const ComparedJob& job, std::size_t studies) {
  std::vector<std::string> cells = {job.name};
  for (const std::string& verdict : job.verdicts)
    cells.push_back(verdict.empty() ? "–" : verdict);
  for (const ShownNumber& number : shown_numbers) {
    const ComparedRow* row = job.numbers.find(number.key);
    for (std::size_t i = 0; i < studies; ++i) {
      cells.push_back(row != nullptr ? row->value_text(i) : "–");
      if (i > 0) cells.push_back(row != nullptr ? difference_text(*row, i) : "–");
    }
  }
  return cells;
}

std::string jobs_table(const StudyComparison& c) {
  DataTable table{job_columns(c.names), {}};
  for (const ComparedJob& job : c.jobs)
    table.rows.push_back(job_cells(job, c.names.size()));
  return "<p class=\"filter\" hidden><label>Filter <input type=\"search\" id=\"filter\"></label> "
         "<span id=\"filter-count\" role=\"status\"></span></p><div class=\"jobs\">" +
         html_table(table, "Every job of the studies") + "</div>";
}

}  // namespace

std::string compare_page(const Comparison& c) {
  std::vector<std::string> names;
  names.reserve(c.sides.size());
  for (const Side& side : c.sides)
    names.push_back(side.name);
  const std::string title = title_of(names);
  std::string body = header("Triplepoint comparison", title, facts_of(c));
  body += findings(sentences_of(c));
  body += section("overview", "At a glance",
                  figures({headline_figure(c), kernels_figure(c), ledger_figure(c), steps_figure(c),
                           stages_figure(c)}));
  body += section("gpus", "Every GPU", figures(gpu_figures(c)));
  body += section("settings", "Configuration differences", settings_table(c));
  body += section("numbers", "Every number", all_numbers(c, names));
  return html_page(title, body, Json::object());
}

std::string compare_page(const StudyComparison& c) {
  const std::string title = title_of(c.names);
  std::string body = header("Triplepoint comparison of studies", title,
                            fmt::format("{} jobs, joined by name.", c.jobs.size()));
  body += findings(sentences_of(c));
  std::vector<Figure> drawings;
  drawings.reserve(c.names.size());
  for (std::size_t i = 1; i < c.names.size(); ++i)
    drawings.push_back(jobs_figure(c, i));
  body += section("overview", "Job by job", figures(drawings));
  body += section("jobs", "All jobs", jobs_table(c));
  return html_page(title, body, Json::object());
}

}  // namespace triplepoint::report
