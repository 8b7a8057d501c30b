// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/run_page.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/results.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/charts/energy_and_power.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/figures/trace_figures.h"
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
  if (!run.manifest.job->environment.faults.empty())
    text += fmt::format(", faults: {}", settings["faults"]);
  text += fmt::format(", seed {}", settings["seed"]);
  if (settings.contains("horizon")) text += fmt::format("; {}", settings["horizon"]);
  return text + ".";
}

/// Of all of a recording, as its summary says it.
void add_recorded_energy(const run::Run& run, std::vector<answers::KeyFigure>& tiles) {
  const std::optional<double> joules = run.numbers.recording_energy_j;
  if (!joules || !(*joules > 0)) return;
  const auto gpus = static_cast<int64_t>(run.devices.size());
  const std::optional<int64_t> without = run.numbers.gpus_without_energy;
  const std::string coverage = !without ? "of GPUs"
                               : *without == 0
                                   ? "all GPUs"
                                   : fmt::format("{} of {} GPUs", gpus - *without, gpus);
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
  const std::string verdict = answers::run_verdict(run).sentence();
  return {answers::title_of(run),
          origin_sentence(run) + conditions_sentence(run) + (verdict.empty() ? "" : " " + verdict),
          std::move(tiles)};
}

namespace {

// ---- charts

/// Lowest, mean and highest of what a plot draws, for those who do not see it.
std::vector<DataCell> plot_cells(const answers::Plot& plot) {
  const auto extremes = answers::extremes_of(plot);
  if (!extremes) return {plot.unit, "–", "–", "–"};
  double sum = 0;
  int64_t count = 0;
  for (const answers::Curve& curve : plot.curves)
    if (curve.is == answers::Curve::Is::mean || curve.is == answers::Curve::Is::single)
      for (const std::optional<double>& value : curve.values)
        if (value) sum += *value, ++count;
  return {plot.unit, significant(extremes->lowest, 4), significant(sum / as_real(count), 4),
          significant(extremes->highest, 4)};
}

/// "32", or "4 of 32" where the others are not in the timeline.
std::string ranks_text(const run::Timeline& timeline) {
  const auto shown = static_cast<int32_t>(run::ranks_of(timeline).size());
  return shown < timeline.num_ranks ? fmt::format("{} of {}", shown, timeline.num_ranks)
                                    : std::to_string(shown);
}

/// The viewer of web/ fills the element: ranks over time, and the curves on the same axis.
std::string timeline_section(const run::Run& run, const std::vector<answers::Plot>& plots) {
  if (plots.empty() && run.timeline.empty()) return "";
  DataTable table = titled_table({"over time", "lowest", "mean", "highest"});
  for (const answers::Plot& plot : plots)
    table.rows.push_back(plot_cells(plot));
  if (table.rows.empty()) table.columns.clear();
  std::string title =
      run.devices.empty() ? "CPU and memory over time" : "Power, temperature and clock over time";
  if (!run.timeline.empty())
    title = fmt::format("What {} rank{} did{}", ranks_text(run.timeline),
                        run.timeline.num_ranks == 1 ? "" : "s",
                        plots.empty() ? "" : ", and power, heat and clocks meanwhile");
  return html_section(
      "time", "Over time",
      html_figure({"timeline-figure", title, "", "<div id=\"timeline\" class=\"timeline\"></div>",
                   std::move(table), true}));
}

Drawing kernels_of_run(const run::Run& run, const Metrics& metrics) {
  BarChart chart{"Kernel seconds of each pipeline stage in one step",
                 "kernel seconds, mean over the stage's GPUs (s)",
                 {},
                 std::nullopt,
                 "",
                 0};
  for (const metrics::Stage& stage : metrics.stages) {
    Bar bar;
    bar.label = fmt::format("stage {}", stage.stage);
    bar.parts = bar_parts_of(kernel_parts(stage.kernels), "s");
    bar.text = significant(stage.kernels.total() / unit::s);
    chart.bars.push_back(std::move(bar));
  }
  return {"kernels", chart.title,
          "Waiting for a late peer is inside the collective's kernel, as NCCL shows it.",
          html_legend(legend_of(kernel_parts({}))) + bar_chart_svg(chart),
          without_blank_columns(answers::stage_table(run, metrics))};
}

Drawing memory_of_run(const run::Run& run) {
  BarChart chart{
      run.manifest.fits_memory ? "Memory: every stage fits" : "Memory: the job does not fit",
      "memory of a GPU (GiB)",
      {},
      std::nullopt,
      "",
      0};
  if (run.memory_limit) chart.limit = *run.memory_limit / unit::GiB;
  for (std::size_t i = 0; i < run.memory.size(); ++i) {
    Bar bar;
    bar.label = fmt::format("stage {}", i);
    bar.parts = bar_parts_of(memory_parts(run.memory[i]), "GiB");
    bar.text = significant(run.memory[i].total() / unit::GiB);
    if (run.memory_limit && run.memory[i].total() > *run.memory_limit)
      bar.status = bar.text + " OOM";
    chart.bars.push_back(std::move(bar));
  }
  const std::string note = chart.limit
                               ? fmt::format("Dashed line: {} GiB, as the driver reports it.",
                                             significant(*chart.limit, 4))
                               : "";
  return {"memory", chart.title, note,
          html_legend(legend_of(memory_parts({}))) + bar_chart_svg(chart),
          without_blank_columns(answers::memory_table(run))};
}

/// " Standard deviation: 5.6 °C within a node, 0.4 °C between the means of nodes.", or nothing.
std::string spread_text(const metrics::Spread& spread, const std::string& unit_name) {
  if (!spread.within_nodes && !spread.between_nodes) return "";
  std::string text = " Standard deviation:";
  if (spread.within_nodes)
    text += fmt::format(" {} {} within a node", deviation_text(*spread.within_nodes), unit_name);
  if (spread.between_nodes)
    text += fmt::format("{} {} {} between the means of nodes", spread.within_nodes ? "," : "",
                        deviation_text(*spread.between_nodes), unit_name);
  return text + ".";
}

/// "Memory temperature" of "memory-temperature".
std::string title_of(std::string name) {
  std::ranges::replace(name, '-', ' ');
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  return name;
}

/// Nodes below each other, local devices from left to right.
Drawing device_map(const run::Run& run, const std::vector<double>& values, const std::string& name,
                   const std::string& unit_name, const metrics::Spread& spread) {
  HeatMap map;
  map.unit = unit_name;
  map.names_nodes = false;  // the rows do
  int32_t per_node = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const run::Device device = i < run.devices.size() ? run.devices[i] : run::Device{};
    const auto node = as_size(device.node);
    while (map.rows.size() <= node)
      map.rows.push_back({fmt::format("node {}", map.rows.size()), {}});
    auto& row = map.rows[node].values;
    auto at = as_size(device.local);
    while (at < row.size() && !std::isnan(row[at]))
      ++at;
    row.resize(std::max(row.size(), at + 1), std::nan(""));
    row[at] = values[i];
    per_node = std::max(per_node, static_cast<int32_t>(at) + 1);
  }
  map.per_node = per_node;
  std::vector<double> known;
  std::ranges::copy_if(values, std::back_inserter(known),
                       [](double value) { return std::isfinite(value); });
  const auto [low, high] = std::minmax_element(known.begin(), known.end());
  map.title = fmt::format("{}: {} to {} {}", title_of(name), significant(*low), significant(*high),
                          unit_name);
  DataTable table = titled_table({"node"});
  for (int32_t i = 0; i < per_node; ++i)
    table.columns.push_back({.title = fmt::format("GPU {} ({})", i, unit_name)});
  for (const HeatRow& row : map.rows) {
    std::vector<DataCell> cells = {row.label};
    for (double value : row.values)
      cells.push_back(significant(value, 4));
    cells.resize(table.columns.size(), "");
    table.rows.push_back(std::move(cells));
  }
  return {"map-" + name, map.title,
          "A row is a node, a column a local device." + spread_text(spread, unit_name),
          heat_map_svg(map), std::move(table)};
}

std::vector<double> times(double factor, std::vector<double> values) {
  for (double& value : values)
    value *= factor;
  return values;
}
std::optional<double> in_per_cent(std::optional<double> share) {
  if (share) *share *= 100;
  return share;
}

bool knows_any(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
}

/// Heat in the chassis, and a map per number that devices know; of a single one, a table.
std::string devices_section(const run::Run& run, const Metrics& metrics) {
  std::string html;
  const Drawing chassis = chassis_figure(run, metrics, {.curves = true});
  if (!chassis.markup.empty()) html += html_figure(chassis);
  DataTable single = titled_table({"quantity", "value"});
  const auto add = [&](const std::vector<double>& values, const char* name, const char* unit_name,
                       const metrics::Spread& spread = {}) {
    if (!knows_any(values)) return;
    if (values.size() == 1)
      single.add({title_of(name), fmt::format("{} {}", significant(values.front(), 4), unit_name)});
    else
      html += html_figure(device_map(run, values, name, unit_name, spread));
  };
  add(metrics.temperature_per_gpu_c, "temperature", "°C", metrics.temperature_spread_c);
  add(metrics.memory_per_gpu_c, "memory-temperature", "°C", metrics.memory_spread_c);
  add(metrics.power_per_gpu_w, "power", "W", metrics.power_spread_w);
  add(metrics.memory_power_per_gpu_w, "memory-power", "W");
  add(metrics.sm_clock_per_gpu_mhz, "clock", "MHz", metrics.clock_spread_mhz);
  const auto& [within, between] = metrics.utilization_spread;
  add(times(100, metrics.utilization_per_gpu), "utilization", "%",
      {.within_nodes = in_per_cent(within), .between_nodes = in_per_cent(between)});
  add(times(1e-9, metrics.links.pcie_received_per_gpu_bytes), "PCIe-received", "GB a step");
  add(times(1e-9, metrics.links.pcie_sent_per_gpu_bytes), "PCIe-sent", "GB a step");
  if (!html.empty()) html = "<div class=\"figures\">" + html + "</div>";
  if (!single.rows.empty()) html += html_table(single, "The GPU of this run");
  if (html.empty()) return "";
  return html_section("devices", run.devices.size() == 1 ? "The device" : "The devices", html);
}

std::string charts_section(const run::Run& run, const Metrics& metrics) {
  std::vector<Drawing> figures;
  if (!metrics.stages.empty()) figures.push_back(kernels_of_run(run, metrics));
  if (!run.memory.empty()) figures.push_back(memory_of_run(run));
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
  return html_section("numbers", "All numbers",
                      "<details class=\"data\"><summary>Every number of the run</summary>" +
                          html_table(without_blank_columns(answers::all_figures(run, metrics)),
                                     "Numbers of the run") +
                          "</details>");
}

std::string energy_section(const Metrics& metrics) {
  if (metrics.energy_ledger_j.empty()) return "";
  return html_section(
      "energy", "Where the energy went",
      html_figures({drawn(energy_ledger_figure({{"one step", &metrics.energy_ledger_j}}))}));
}

/// Who slows the others, with the numbers of the finding's sentence.
std::string bottleneck_section(const run::Run& run, const Metrics& metrics) {
  if (metrics.bottlenecks.empty()) return "";
  constexpr std::array of = {"GPU", "node", "rank"};
  DataTable table = titled_table({"who", "what", "its value", "its peers"});
  const std::vector<std::string> numbers = run::device_numbers(run);
  for (const run::Bottleneck& bottleneck : metrics.bottlenecks)
    for (const run::Evidence& item : bottleneck.evidence) {
      using Kind = run::Evidence::Kind;
      const bool is_count = item.kind == Kind::late_arrivals;  // of all the rank takes part in
      const bool is_excess = item.kind > Kind::late_arrivals && item.kind <= Kind::host_call;
      table.rows.push_back(
          {fmt::format("{} {}", of[as_size(bottleneck.of)],
                       fmt::join(metrics::names_of(bottleneck, numbers), ", ")),
           metrics::evidence_label(item),
           is_count ? fmt::format("{} of {}", item.value, item.peers) : significant(item.value, 4),
           is_count || is_excess ? "–" : significant(item.peers, 4)});
    }
  return html_section("bottlenecks", "Who slows the others",
                      html_table(table, "The slowest beside the median of its peers"));
}

}  // namespace

std::vector<Drawing> run_figures(const run::Run& run, const Metrics& metrics) {
  std::vector<Drawing> figures{pipeline_figure(run)};
  if (!metrics.stages.empty()) figures.push_back(kernels_of_run(run, metrics));
  if (!run.memory.empty()) figures.push_back(memory_of_run(run));
  figures.push_back(chassis_figure(run, metrics));
  if (!metrics.energy_ledger_j.empty())
    figures.push_back(drawn(energy_ledger_figure({{"one step", &metrics.energy_ledger_j}})));
  if (const auto profile = metrics::power_profile(run))
    figures.push_back(drawn(answers::power_section(*profile).figures.front()));
  std::erase_if(figures, [](const Drawing& figure) { return figure.markup.empty(); });
  return figures;
}

std::string run_page(const run::Run& run, const Metrics& metrics,
                     const std::vector<spec::Provenance>& numbers) {
  const std::vector<answers::Plot> plots = answers::plots_of(run);
  const RunHead head = run_head(run, metrics);
  const std::optional<metrics::PowerProfile> profile = metrics::power_profile(run);
  std::vector<answers::Remark> findings = answers::run_findings(run, metrics);
  std::string body =
      html_header("run", head.title,
                  (findings.empty() ? "" : "<b>" + escape(findings.front().text) + "</b> ") +
                      escape(head.facts) + escape(assumed_text(numbers)));
  if (!findings.empty()) findings.erase(findings.begin());  // the verdict
  if (run::has_trained(run)) body += html_tiles(head.tiles);
  // The first screen: what holds the run up, and when; the rest below the timeline.
  const auto first = findings.begin() + std::min<std::ptrdiff_t>(3, std::ssize(findings));
  body += section_html({.id = "", .title = "", .remarks = {findings.begin(), first}});
  body += section_html(answers::faults_section(run));
  body += timeline_section(run, plots);
  body += section_html(
      {.id = "findings", .title = "More findings", .remarks = {first, findings.end()}});
  if (run::has_trained(run)) body += bottleneck_section(run, metrics);
  body += charts_section(run, metrics) + trace_section(run, metrics) + energy_section(metrics);
  if (profile) body += section_html(answers::power_section(*profile));
  body += missing_sensors_section(run, metrics);
  if (run::has_trained(run)) body += all_numbers_section(run, metrics);
  body += manifest_sections(run, numbers);
  if (const auto command = value_at(run.manifest.facts, "command"))
    body += html_command("Recorded by triplepoint record", *command);
  Json data = {{"plots", answers::plots_json(plots)}};
  if (!run.timeline.empty()) data["timeline"] = timeline_data(run);
  return html_page(answers::title_of(run), body, data);
}

}  // namespace triplepoint::report
