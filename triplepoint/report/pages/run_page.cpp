// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/run_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/results.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/charts/energy_and_power.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/figures/trace_figures.h"
#include "triplepoint/report/findings/run_findings.h"
#include "triplepoint/report/pages/document_page.h"

namespace triplepoint::report {
namespace {

using metrics::Metrics;

std::string origin_sentence(const run::Run& run) {
  const char* how = run.manifest.origin == run::Origin::simulated  ? "Simulated"
                    : run.manifest.origin == run::Origin::measured ? "Measured"
                                                                   : "Imported";
  std::string text = fmt::format(
      "{} by {}", how, run.manifest.producer.empty() ? "triplepoint" : run.manifest.producer);
  if (run.manifest.job)
    text += fmt::format("; stack {}, global batch {}, data parallelism {}{}",
                        run.manifest.job->stack.name, run.manifest.job->plan.global_batch_size,
                        run.manifest.job->data_parallel_size(),
                        answers::network_label(*run.manifest.job));
  return text + ".";
}

/// The room, the limits and the faults that a simulated run was given.
std::string conditions_sentence(const run::Run& run) {
  if (run.manifest.origin != run::Origin::simulated || !run.manifest.job) return "";
  std::map<std::string, std::string> settings;
  for (auto& [name, value] : answers::settings_of(run))
    settings.emplace(name, std::move(value));
  std::string text = fmt::format(" Inlet {}, {} cooling", settings["inlet"], settings["cooling"]);
  if (settings.contains("power_limit"))
    text += fmt::format(", power limit of a GPU {}", settings["power_limit"]);
  if (settings.contains("clock_lock")) text += fmt::format(", clock {}", settings["clock_lock"]);
  if (settings["faults"] != "none") text += fmt::format(", faults: {}", settings["faults"]);
  text += fmt::format(", seed {}", settings["seed"]);
  if (settings.contains("horizon")) text += fmt::format("; {}", settings["horizon"]);
  return text + ".";
}

std::string verdict_sentence(const run::Run& run) {
  const std::string text = answers::memory_text(run);
  if (run.shutdown) return fmt::format(" {}.", run::shutdown_text(run));
  if (text.empty()) return "";
  return fmt::format(" {}{}", capitalized(text),
                     run.manifest.fits_memory ? "." : ": the job does not fit in memory.");
}

/// Of all of a recording, as its summary says it.
void add_recorded_energy(const run::Run& run, std::vector<answers::KeyFigure>& tiles) {
  const std::optional<double> joules = run.numbers.recording_energy_j;
  if (!joules || !(*joules > 0)) return;
  const auto found = run.manifest.facts.find("recording_energy_coverage");
  const std::string coverage = found == run.manifest.facts.end() ? "all GPUs" : found->second;
  tiles.push_back(
      {"energy of the recording", significant(*joules / 1000) + " kJ",
       fmt::format("± {}, {}",
                   percent(run.numbers.recording_energy_uncertainty_j.value_or(0) / *joules),
                   coverage)});
}

}  // namespace

RunHead run_head(const run::Run& run, const Metrics& metrics) {
  std::vector<answers::KeyFigure> tiles = answers::key_figures(run, metrics);
  add_recorded_energy(run, tiles);
  return {answers::title_of(run),
          origin_sentence(run) + conditions_sentence(run) + verdict_sentence(run),
          std::move(tiles)};
}

namespace {

// ---- charts

/// Lowest, mean and highest of what a plot draws, for those who do not see it.
std::vector<std::string> plot_cells(const answers::Plot& plot) {
  const auto extremes = answers::extremes_of(plot);
  if (!extremes) return {plot.unit, "–", "–", "–"};
  double sum = 0;
  int64_t count = 0;
  for (const answers::Curve& curve : plot.curves)
    if (curve.is == answers::Curve::Is::mean || curve.is == answers::Curve::Is::single)
      for (const std::optional<double>& value : curve.values)
        if (value) sum += *value, ++count;
  return {plot.unit, significant(extremes->lowest, 4),
          significant(sum / static_cast<double>(count), 4), significant(extremes->highest, 4)};
}

/// "32", or "4 of 32" where the timeline shows the others by their like.
std::string ranks_text(const run::Run& run, const Json& timeline) {
  std::size_t shown = 0;
  for (const Json& rank : timeline["ranks"])
    shown += 1 + (rank.contains("like") ? rank["like"].size() : 0);
  const auto all = static_cast<std::size_t>(run.timeline.num_ranks);
  return shown < all ? fmt::format("{} of {}", shown, all) : std::to_string(shown);
}

/// The viewer of web/ fills the element: ranks over time, and the curves on the same axis.
std::string timeline_section(const run::Run& run, const std::vector<answers::Plot>& plots,
                             const Json& timeline) {
  if (plots.empty() && timeline.is_null()) return "";
  DataTable table{{"over time", "lowest", "mean", "highest"}, {}};
  for (const answers::Plot& plot : plots)
    table.rows.push_back(plot_cells(plot));
  if (table.rows.empty()) table.columns.clear();
  std::string title =
      run.devices.empty() ? "CPU and memory over time" : "Power, temperature and clock over time";
  if (!timeline.is_null())
    title = fmt::format("What {} rank{} did{}", ranks_text(run, timeline),
                        run.timeline.num_ranks == 1 ? "" : "s",
                        plots.empty() ? "" : ", and power, heat and clocks meanwhile");
  return html_section(
      "time", "Over time",
      html_figure({"timeline-figure", title, "", "<div id=\"timeline\" class=\"timeline\"></div>",
                   std::move(table), true}));
}

Figure kernel_figure(const run::Run& run, const Metrics& metrics) {
  BarChart chart{.title = "Kernel seconds of each pipeline stage in one step",
                 .unit = "kernel seconds, mean over the stage's GPUs (s)",
                 .bars = {}};
  for (const metrics::Stage& stage : metrics.stages)
    chart.bars.push_back(
        stacked_bar(fmt::format("stage {}", stage.stage), kernel_parts(stage.kernels), "s"));
  return {"kernels", chart.title,
          "Waiting for a late peer is inside the collective's kernel, as NCCL shows it.",
          html_legend(legend_of(kernel_parts({}))) + bar_chart_svg(chart),
          shown_table(answers::stage_table(run, metrics))};
}

Figure memory_figure(const run::Run& run) {
  BarChart chart{.title = run.manifest.fits_memory ? "Memory: every stage fits"
                                                   : "Memory: the job does not fit",
                 .unit = "memory of a GPU (GiB)",
                 .bars = {}};
  std::string note;
  if (run.memory_limit) {
    chart.limit = *run.memory_limit / unit::GiB;
    note =
        fmt::format("Dashed line: {} GiB, as the driver reports it.", significant(*chart.limit, 4));
  }
  for (std::size_t i = 0; i < run.memory.size(); ++i) {
    Bar& bar = chart.bars.emplace_back(
        stacked_bar(fmt::format("stage {}", i), memory_parts(run.memory[i]), "GiB"));
    if (run.memory_limit && run.memory[i].total() > *run.memory_limit)
      bar.status = bar.text + " OOM";
  }
  return {"memory", chart.title, note,
          html_legend(legend_of(memory_parts({}))) + bar_chart_svg(chart),
          shown_table(answers::memory_table(run))};
}

/// Nodes below each other, local devices from left to right.
Figure device_map(const run::Run& run, const Metrics& metrics, const DeviceSignal& signal,
                  const std::vector<double>& values) {
  HeatMap map{.title = {}, .unit = signal.unit, .rows = {}, .per_node = 1, .names_nodes = false};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const run::Device device = i < run.devices.size() ? run.devices[i] : run::Device{};
    const auto node = static_cast<std::size_t>(device.node);
    while (map.rows.size() <= node)
      map.rows.push_back({fmt::format("node {}", map.rows.size()), {}});
    map.rows[node].values.push_back(values[i]);
    map.per_node = std::max<int64_t>(map.per_node, device.local + 1);
  }
  std::vector<double> known = values;
  std::erase_if(known, [](double value) { return !std::isfinite(value); });
  const auto [low, high] = std::ranges::minmax(known);
  map.title = fmt::format("{}: {} to {} {}", capitalized(signal.id), significant(low),
                          significant(high), signal.unit);
  DataTable table{{"node"}, {}};
  for (int64_t i = 0; i < map.per_node; ++i)
    table.columns.push_back(fmt::format("GPU {} ({})", i, signal.unit));
  for (const HeatRow& row : map.rows) {
    std::vector<std::string> cells = {row.label};
    for (double value : row.values)
      cells.push_back(significant(value, 4));
    cells.resize(table.columns.size());
    table.rows.push_back(std::move(cells));
  }
  std::string id = "map-" + signal.id;
  std::ranges::replace(id, ' ', '-');
  const metrics::Spread spread =
      signal.spread != nullptr ? metrics.*signal.spread : metrics::Spread();
  return {std::move(id), map.title,
          "A row is a node, a column a local device." + signal.note + spread_text(signal, spread),
          heat_map_svg(map), std::move(table)};
}

/// Heat in the chassis, and a map per number that devices know; of a single one, a table.
std::string devices_section(const run::Run& run, const Metrics& metrics) {
  std::string html;
  const Figure chassis = chassis_figure(run, metrics, {.curves = true});
  if (!chassis.drawing.empty()) html += html_figure(chassis);
  DataTable single{{"quantity", "value"}, {}};
  for (const DeviceSignal& signal : device_signals()) {
    const std::vector<double> values = signal.of(metrics);
    if (std::ranges::none_of(values, [](double value) { return std::isfinite(value); })) continue;
    if (values.size() == 1)
      single.add({capitalized(signal.id),
                  fmt::format("{} {}", significant(values.front(), 4), signal.unit)});
    else
      html += html_figure(device_map(run, metrics, signal, values));
  }
  if (!html.empty()) html = "<div class=\"figures\">" + html + "</div>";
  if (!single.rows.empty()) html += html_table(single, "The GPU of this run");
  if (html.empty()) return "";
  return html_section("devices", run.devices.size() == 1 ? "The device" : "The devices", html);
}

std::string charts_section(const run::Run& run, const Metrics& metrics) {
  std::vector<Figure> figures;
  if (!metrics.stages.empty()) figures.push_back(kernel_figure(run, metrics));
  if (!run.memory.empty()) figures.push_back(memory_figure(run));
  const std::string html =
      figures.empty() ? "" : html_section("parts", "Kernel time and memory", html_figures(figures));
  return html + devices_section(run, metrics);
}

// ---- tables

/// States what a measured run has no chart of.
std::string missing_sensors_section(const run::Run& run, const Metrics& metrics) {
  std::vector<std::string> missing;
  if (!metrics.power_mean_w && !metrics.node_energy_j) missing.emplace_back("power or energy");
  if (!metrics.temperature_mean_c) missing.emplace_back("temperature");
  if (!metrics.sm_clock_mean_mhz) missing.emplace_back("clocks");
  const bool expected = missing.size() == 3 || !run.devices.empty();
  if (missing.empty() || !expected || run.manifest.origin != run::Origin::measured) return "";
  return html_section(
      "sensors", "Power and heat",
      fmt::format("<p>Not measured during this run: {}. <code>triplepoint doctor</code> lists the "
                  "reasons and remedies.</p>",
                  joined(missing, ", ")));
}

std::string all_numbers_section(const run::Run& run, const Metrics& metrics) {
  return html_section(
      "numbers", "All numbers",
      "<details class=\"data\"><summary>Every number of the run</summary>" +
          html_table(shown_table(answers::all_figures(run, metrics)), "Numbers of the run") +
          "</details>");
}

}  // namespace

std::vector<Figure> run_figures(const run::Run& run, const Metrics& metrics) {
  std::vector<Figure> figures{pipeline_figure(run)};
  if (!metrics.stages.empty()) figures.push_back(kernel_figure(run, metrics));
  if (!run.memory.empty()) figures.push_back(memory_figure(run));
  figures.push_back(chassis_figure(run, metrics));
  if (!metrics.energy_ledger_j.empty())
    figures.push_back(drawn(energy_ledger_figure({{"one step", &metrics.energy_ledger_j}})));
  if (const auto profile = metrics::power_profile(run))
    figures.push_back(drawn(answers::power_section(*profile).figures.front()));
  std::erase_if(figures, [](const Figure& figure) { return figure.drawing.empty(); });
  return figures;
}

std::string run_page(const run::Run& run, const Metrics& metrics,
                     const std::vector<spec::Provenance>& numbers) {
  const std::vector<answers::Plot> plots = answers::plots_of(run);
  const Json timeline = timeline_data(run);
  const RunHead head = run_head(run, metrics);
  const std::optional<metrics::PowerProfile> profile = metrics::power_profile(run);
  std::vector<answers::Remark> findings = run_findings(run, metrics);
  std::string body =
      html_header("run", head.title,
                  (findings.empty() ? "" : "<b>" + escape(findings.front().text) + "</b> ") +
                      escape(head.facts) + escape(assumed_text(numbers)));
  if (!findings.empty()) findings.erase(findings.begin());  // the verdict
  if (run::has_trained(run)) body += html_tiles(head.tiles);
  // The first screen: what holds the run up, and when; the rest below the timeline.
  const auto rest = findings.begin() + std::min<std::ptrdiff_t>(3, std::ssize(findings));
  body += section_html({.id = "first", .title = "", .remarks = {findings.begin(), rest}});
  if (const DataTable phases = shown_table(answers::phases_table(run)); phases.rows.size() > 1)
    body += html_section("phases", "Phases", html_table(phases, "Phases of the run"));
  body += timeline_section(run, plots, timeline);
  body +=
      section_html({.id = "findings", .title = "More findings", .remarks = {rest, findings.end()}});
  body += charts_section(run, metrics) + trace_section(run, metrics);
  if (!metrics.energy_ledger_j.empty())
    body +=
        section_html({.id = "energy",
                      .title = "Where the energy went",
                      .figures = {energy_ledger_figure({{"one step", &metrics.energy_ledger_j}})}});
  if (profile) body += section_html(answers::power_section(*profile));
  body += missing_sensors_section(run, metrics);
  if (run::has_trained(run)) body += all_numbers_section(run, metrics);
  body += manifest_sections(run, numbers);
  if (const auto recorded = run.manifest.facts.find("command");
      recorded != run.manifest.facts.end())
    body += html_command("Recorded by triplepoint record", recorded->second);
  Json data = {{"plots", answers::plots_json(plots)}};
  if (!timeline.is_null()) data["timeline"] = timeline;
  return html_page(answers::title_of(run), body, data);
}

}  // namespace triplepoint::report
