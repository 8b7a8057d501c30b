// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/energy_and_power.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/compare/compare.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

using answers::Section;

/// "TP8", or "TP8, node 3" where bars of several sides mix.
std::string label_of(const Comparison& c, std::size_t side, const std::string& what) {
  return c.sides.size() == 2 ? what : fmt::format("{}, {}", what, c.sides[side].name);
}

double relative_of(const ComparedRow& row, std::size_t side) {
  const auto by = difference(row, side);
  return by && by->relative ? *by->relative : 0;
}

/// An empty section if there is none of this name.
ComparedSection section_of(const Comparison& c, std::string_view name) {
  const auto found = std::ranges::find(c.sections, name, &ComparedSection::name);
  return found == c.sections.end() ? ComparedSection() : *found;
}

answers::Bar kernel_bar(const metrics::KernelSeconds& kernels, std::string label) {
  answers::Bar bar;
  bar.label = std::move(label);
  if (kernels.total() <= Seconds()) {  // it did not run, or nothing has seen its kernels
    bar.status = "not known";
    return bar;
  }
  bar.parts = bar_parts_of(kernel_parts(kernels), "s");
  bar.text = significant(kernels.total() / unit::s);
  return bar;
}

answers::Figure gpu_figure(const Comparison& c, std::vector<double> metrics::Metrics::*list,
                           const char* id, const char* name, const char* unit_name) {
  answers::HeatMap map{.title = fmt::format("{} of every GPU", name), .unit = unit_name};
  map.per_node = 1;
  // Recordings may be of different GPUs: a column is one of a name. Simulated ones have all.
  const bool by_name = std::ranges::all_of(c.sides, &Side::is_recorded);
  std::vector<std::string> names;
  for (const Side& side : c.sides) {
    const std::vector<double>& values = side.metrics().*list;
    if (values.empty()) continue;
    answers::HeatRow row{side.name, {}};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string name = by_name ? run::device_number(side.row.gpus, i) : std::to_string(i);
      const auto at = by_name ? as_size(std::ranges::find(names, name) - names.begin()) : i;
      if (at == names.size()) names.push_back(name);
      row.values.resize(std::max(row.values.size(), at + 1), std::nan(""));
      row.values[at] = values[i];
    }
    map.rows.push_back(std::move(row));
    map.per_node = std::max(map.per_node, side.row.gpus_per_node);
  }
  const std::size_t most = names.size();
  if (map.rows.empty()) return {};
  std::vector<TextColumn> columns = {{"run", Align::left}};
  for (std::size_t i = 0; i < most; ++i)
    columns.push_back({fmt::format("GPU {} ({})", names[i], unit_name)});
  DataTable table = text_table(std::move(columns));
  for (const answers::HeatRow& row : map.rows) {
    std::vector<DataCell> cells = {row.label};
    for (std::size_t i = 0; i < most; ++i)
      cells.emplace_back(i < row.values.size() ? significant(row.values[i], 4) : "");
    table.add(std::move(cells));
  }
  return {.id = fmt::format("gpus-{}", id),
          .title = map.title,
          .note = "A row is a run, a column a GPU.",
          .chart = std::move(map),
          .table = std::move(table),
          .wide = true};
}

/// What changed most visibly, of the whole run where one is longer than its last step: one bar per
/// number that matters and side.
answers::Figure headline_figure(const Comparison& c) {
  ComparedSection shown = section_of(c, "whole");
  const std::string of_what = shown.rows.empty() ? "" : ", the whole run";
  if (shown.rows.empty())
    for (const char* key :
         {"step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "joules_per_token", "power_mean_w",
          "power_peak_w", "sm_clock_mean_mhz", "exposed_communication_s", "memory_gib"})
      if (const ComparedRow* row = c.find(key)) shown.rows.push_back(*row);
  shown.title = "number";
  std::vector<DifferenceBar> bars;
  for (const ComparedRow& row : shown.rows)
    for (std::size_t i = 1; i < c.sides.size(); ++i)
      if (difference(row, i) && row.says == ChangeForm::relative)
        bars.push_back({label_of(c, i, row.title), relative_of(row, i), difference_text(row, i),
                        judgement(row, i), i == 1 && c.sides.size() > 2});
  if (bars.empty()) return {};
  const std::string title =
      (c.sides.size() == 2 ? fmt::format("{} against {}", c.sides[1].name, c.sides[0].name)
                           : fmt::format("Against {}", c.sides[0].name)) +
      of_what;
  return {"differences",
          title,
          "Length: change in per cent; colour: improvement or regression.",
          answers::DifferenceChart{title, "against the first", std::move(bars)},
          difference_legend(),
          section_table(c, shown)};
}

/// Kernel seconds by class: a bar per side; and one per stage and side.
answers::Figure kernels_figure(const Comparison& c) {
  const ComparedSection section = section_of(c, "kernels");
  if (section.rows.empty()) return {};
  BarChart chart{.title = "Kernel seconds of a GPU in one step",
                 .unit = "kernel seconds, mean over GPUs (s)",
                 .cuts = false};
  for (const Side& side : c.sides)
    chart.bars.push_back(kernel_bar(side.metrics().kernels, side.name));
  if (const ComparedRow* total = c.find("kernel_total_s"); total && c.sides.size() == 2)
    if (const auto by = difference(*total, 1))
      chart.title = fmt::format("Kernel seconds of a GPU: {} ({})", difference_text(*total, 1),
                                total->value_text(1) + " against " + total->value_text(0) + " s");
  return {"kernels",
          chart.title,
          "Waiting for a late peer is inside the collective's kernel, as NCCL shows it.",
          chart,
          legend_of(kernel_parts({})),
          section_table(c, section)};
}

answers::Figure stages_figure(const Comparison& c) {
  const ComparedSection section = section_of(c, "stages");
  if (section.rows.empty()) return {};
  BarChart chart{.title = "Kernel seconds of each pipeline stage",
                 .unit = "kernel seconds, mean over the stage's GPUs (s)",
                 .cuts = false};
  const std::size_t most =
      most_of(c.sides, [](const Side& side) { return side.metrics().stages.size(); });
  for (std::size_t stage = 0; stage < most; ++stage) {
    bool first = true;
    for (const Side& side : c.sides) {
      if (stage >= side.metrics().stages.size()) continue;
      chart.bars.push_back(kernel_bar(side.metrics().stages[stage].kernels,
                                      fmt::format("stage {}, {}", stage, side.name)));
      chart.bars.back().begins_group = first;
      first = false;
    }
  }
  return {"stages", chart.title, "", chart, legend_of(kernel_parts({})), section_table(c, section)};
}

/// Length of every step.
answers::Figure steps_figure(const Comparison& c) {
  constexpr std::size_t most_steps = 400, most_names = 12;
  const std::size_t steps = most_of(c.sides, [](const Side& side) { return side.step_s.size(); });
  if (steps < 2) return {};
  const std::size_t drawn = std::min(steps, most_steps);
  const std::size_t every = (drawn + most_names - 1) / most_names;
  LineChart chart{"Length of every step", "step", "step time (s)", {}, {}, false};
  std::vector<TextColumn> columns = {{"step", Align::left}};
  std::vector<std::vector<DataCell>> rows;
  for (std::size_t i = 0; i < drawn; ++i) {
    chart.positions.push_back(i % every == 0 ? std::to_string(i + 1) : "");
    rows.push_back({std::to_string(i + 1)});
  }
  std::vector<LegendEntry> legend;
  for (std::size_t s = 0; s < c.sides.size(); ++s) {
    Line line{c.sides[s].name, fmt::format("s{}", s % 8), {}};
    for (std::size_t i = 0; i < drawn; ++i) {
      const auto& all = c.sides[s].step_s;
      line.values.push_back(i < all.size() ? std::optional(all[i]) : std::nullopt);
      rows[i].emplace_back(significant(line.values.back(), 4));
    }
    columns.push_back({c.sides[s].name + " (s)"});
    legend.push_back({line.style, line.name});
    chart.lines.push_back(std::move(line));
  }
  DataTable table = text_table(std::move(columns));
  table.rows = std::move(rows);
  return {"steps",
          chart.title,
          drawn < steps ? fmt::format("The first {} of {}.", drawn, steps) : "",
          chart,
          std::move(legend),
          std::move(table)};
}

/// Energy of a step by use, a bar per side.
answers::Figure ledger_figure(const Comparison& c) {
  std::vector<NamedLedger> ledgers;
  for (const Side& side : c.sides)
    if (!side.metrics().energy_ledger_j.empty())
      ledgers.push_back({side.name, &side.metrics().energy_ledger_j});
  return ledgers.empty() ? answers::Figure{} : energy_ledger_figure(ledgers);
}

/// Step time of each job against the first study, sorted.
answers::Figure jobs_figure(const StudyComparison& c, std::size_t side) {
  constexpr std::size_t most_bars = 60;
  std::vector<DifferenceBar> bars;
  DataTable table = text_table(
      {{"job", Align::left}, {c.names[0] + " (s)"}, {c.names[side] + " (s)"}, {"difference"}});
  for (const ComparedJob& job : c.jobs) {
    const ComparedRow* row = job.numbers.find("step_time_s");
    if (row == nullptr || !difference(*row, side)) continue;
    bars.push_back({job.name, relative_of(*row, side), difference_text(*row, side),
                    judgement(*row, side), false});
    table.add({job.name, row->value_text(0), row->value_text(side), difference_cell(*row, side)});
  }
  if (bars.empty()) return {};
  std::ranges::stable_sort(bars, [](const DifferenceBar& a, const DifferenceBar& b) {
    return std::abs(a.relative) > std::abs(b.relative);
  });
  const std::size_t all = bars.size();
  const auto slower =
      std::ranges::count_if(bars, [](const DifferenceBar& bar) { return bar.judgement < 0; });
  bars.resize(std::min(all, most_bars));
  std::ranges::stable_sort(bars, std::greater(), &DifferenceBar::relative);
  const auto mean = c.mean_ratio("step_time_s", side);
  const std::string title =
      fmt::format("Step time in {} against {}: {} of {} jobs are slower, geometric mean {}{} %",
                  c.names[side], c.names[0], slower, all, mean->ratio >= 1 ? "+" : "−",
                  significant(100 * std::abs(mean->ratio - 1), 2));
  return {fmt::format("jobs-{}", side),
          title,
          all > most_bars ? fmt::format("The {} jobs that changed most.", most_bars) : "",
          answers::DifferenceChart{title, "against the first", std::move(bars)},
          difference_legend(),
          std::move(table),
          true};
}

DataTable settings_table(const Comparison& c) {
  std::vector<TextColumn> columns = {{"setting", Align::left}};
  for (const Side& side : c.sides)
    columns.push_back({side.name, Align::left});
  DataTable table = text_table(std::move(columns));
  for (const auto& [name, values] : c.settings) {
    std::vector<DataCell> cells = {name == "numbers" ? "shipped data (digest)" : name};
    for (const auto& value : values)
      cells.emplace_back(value.value_or("–"));
    table.add(std::move(cells));
  }
  return table;
}

/// What is seldom looked at.
bool is_detail(const ComparedSection& section) {
  constexpr std::array details = {"stages", "steps", "ledger", "throttle"};
  return holds(details, section.name);
}

/// No side differs from the first by it.
bool tells_nothing(const ComparedRow& row, const Comparison& c) {
  for (std::size_t side = 1; side < c.sides.size(); ++side)
    if (differs(&row, side)) return false;
  return true;
}

/// The first sentence is the verdict; the others are left.
std::vector<std::string> begin_with_verdict(answers::Document& document,
                                            std::vector<std::string> sentences) {
  if (sentences.empty()) return sentences;
  document.verdict = std::move(sentences.front());
  sentences.erase(sentences.begin());
  return sentences;
}

Section what_changed(const std::vector<std::string>& sentences) {
  Section section{"findings", "What changed"};
  for (const std::string& sentence : sentences)
    section.remarks.push_back({sentence});
  return section;
}

/// Figures without a chart are of what is not known.
Section drawings(const char* id, const char* title, std::vector<answers::Figure> figures) {
  std::erase_if(figures, [](const answers::Figure& figure) { return figure.title.empty(); });
  return {.id = id, .title = title, .figures = std::move(figures)};
}

std::string facts_of(const Comparison& c) {
  const std::vector<std::string> facts = mapped(c.sides, [](const Side& side) {
    return fmt::format(
        "{}: {}, {}", side.name, run::name_of(side.row.origin),
        side.row.slots.empty() ? "no GPU recorded" : fmt::format("{} GPUs", side.row.slots.size()));
  });
  const bool over_time = c.find("whole_step_time_s") != nullptr;
  return fmt::format("{}. Differences are against {}{}.", fmt::join(facts, "; "), c.sides[0].name,
                     over_time ? "; numbers not of the whole run are of the last step" : "");
}

std::string title_of(const std::vector<std::string>& names) {
  std::vector<std::string> others(names.begin() + 1, names.end());
  return fmt::format("{} against {}", fmt::join(others, ", "), names[0]);
}

}  // namespace

answers::Document comparison_document(const Comparison& c, bool all) {
  using metrics::Metrics;
  const std::vector<std::string> names = mapped(c.sides, &Side::name);
  answers::Document document{.kind = "comparison", .title = title_of(names), .facts = facts_of(c)};
  Section settings{"settings", "Configuration differences"}, numbers{"numbers", "Every number"};
  if (!c.settings.empty()) settings.tables = {settings_table(c)};
  std::size_t left_out = 0;
  for (ComparedSection section : c.sections) {
    if (!all && is_detail(section)) continue;
    if (!all)
      left_out +=
          std::erase_if(section.rows, [&](const auto& row) { return tells_nothing(row, c); });
    if (!section.rows.empty()) numbers.tables.push_back(section_table(c, section));
  }
  if (left_out > 0)
    numbers.remarks = {{fmt::format(
        "Other numbers, the same on all sides or not known of all: {} (--all shows them).",
        left_out)}};
  document.sections = {
      what_changed(begin_with_verdict(document, sentences_of(c))),
      drawings("overview", "At a glance",
               {headline_figure(c), kernels_figure(c), ledger_figure(c), steps_figure(c),
                stages_figure(c)}),
      drawings("gpus", "Every GPU",
               {gpu_figure(c, &Metrics::temperature_per_gpu_c, "temperature", "Temperature", "°C"),
                gpu_figure(c, &Metrics::power_per_gpu_w, "power", "Power", "W"),
                gpu_figure(c, &Metrics::sm_clock_per_gpu_mhz, "clock", "SM clock", "MHz")}),
      std::move(settings), std::move(numbers)};
  document.numbers = comparison_json(c);
  return document;
}

answers::Document comparison_document(const StudyComparison& c, bool all) {
  constexpr std::size_t most_rows = 20;
  answers::Document document{.kind = "comparison of studies",
                             .title = title_of(c.names),
                             .facts = fmt::format("{} jobs, joined by name.", c.jobs.size())};
  std::vector<answers::Figure> figures;
  for (std::size_t i = 1; i < c.names.size(); ++i)
    figures.push_back(jobs_figure(c, i));
  Section jobs{.id = "jobs", .title = "All jobs", .filtered = true};
  jobs.tables = {jobs_table(c, all ? c.jobs.size() : most_rows)};
  if (const std::size_t shown = jobs.tables.front().rows.size(); shown < c.jobs.size())
    jobs.remarks = {
        {fmt::format("{} more jobs changed less; --all shows them", c.jobs.size() - shown),
         answers::Remark::Kind::note}};
  document.sections = {what_changed(begin_with_verdict(document, sentences_of(c))),
                       drawings("overview", "Job by job", std::move(figures)), std::move(jobs)};
  document.numbers = comparison_json(c);
  return document;
}

}  // namespace triplepoint::report
