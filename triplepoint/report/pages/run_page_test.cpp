// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/run_page.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/charts/energy_and_power.h"
#include "triplepoint/report/figures/trace_figures.h"
#include "triplepoint/report/pages/index_page.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

spec::Chassis chassis_of(std::vector<std::vector<double>> upstream_heating) {
  spec::Chassis chassis;
  for (std::vector<double>& of : upstream_heating)
    chassis.slots.push_back({Kelvins(), 1, std::move(of)});
  return chassis;
}

TEST_CASE("the index counts joules per token where the run's page does, and says where") {
  run::Run run = sample_run();
  run.manifest.job->environment.pue = 1.2;
  const metrics::Metrics m = metrics::measure(run);
  const IndexEntry entry = index_entry(run);
  CHECK(entry.joules_per_token == m.joules_per_token);
  REQUIRE(m.joules_per_token);
  REQUIRE(m.energy_scope == metrics::EnergyScope::gpu);
  CHECK(contains(index_page("runs", {entry}), "<td>GPUs</td>"));
}

run::Run run_with_chassis() {
  run::Run run = sample_run();
  spec::Cluster& cluster = run.manifest.job->cluster;
  cluster.chassis =
      chassis_of({{}, {}, {}, {}, {0, 1, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 1}});
  return run;
}

metrics::Metrics metrics_of_32() {
  metrics::Metrics m;
  for (int i = 0; i < 32; ++i) {
    m.temperature_per_gpu_c.push_back(i % 8 < 4 ? 55 : 66);
    m.power_per_gpu_w.push_back(600);
  }
  return m;
}

TEST_CASE("chassis: a slot lies behind the slots that warm its air") {
  CHECK(answers::slot_depths(chassis_of({{}, {1}, {0, 1}})) == std::vector<int32_t>{0, 1, 2});
}

TEST_CASE("chassis: slots that warm each other lie side by side") {
  CHECK(answers::slot_depths(chassis_of({{0, 1}, {1, 0}})) == std::vector<int32_t>{0, 0});
}

TEST_CASE("chassis: a ring of slots has an end") {
  const auto depths = answers::slot_depths(chassis_of({{0, 0, 1}, {1}, {0, 1}}));
  for (const int32_t depth : depths)
    CHECK(depth < 3);
}

TEST_CASE("chassis: the title says how much hotter the rear is, and every GPU is in the table") {
  const Drawing figure = chassis_figure(run_with_chassis(), metrics_of_32());
  CHECK(contains(figure.title, "run 11.0 °C hotter"));
  CHECK(figure.table.rows.size() == 32);
  CHECK(contains(figure.markup, "node 3"));
}

TEST_CASE("chassis: each GPU that is drawn has its curves where a page wants them") {
  const Drawing figure = chassis_figure(run_with_chassis(), metrics_of_32(), {.curves = true});
  CHECK(count_of(figure.markup, "<g data-gpu=") == 32);
  CHECK(count_of(figure.markup, "<template data-gpu=") == 32);
  CHECK(contains(figure.markup, "GPU 31 over the run"));
  CHECK(gpu_curves_svg(run_with_chassis(), 32).empty());
}

TEST_CASE("plots: of one device, its curve alone") {
  for (const answers::Plot& plot : answers::plots_of(run_with_chassis(), 60, 5)) {
    CHECK(plot.curves.size() == 1);
    CHECK(plot.curves.front().name == "GPU 5");
  }
}

TEST_CASE("chassis: a run that does not know its chassis has no picture") {
  run::Run run = run_with_chassis();
  run.manifest.job.reset();
  CHECK(chassis_figure(run, metrics_of_32()).markup.empty());
}

TEST_CASE("ledger: shares add up to the whole, the largest use first") {
  const std::map<std::string, double> joules = {{"idle", 1e6}, {"compute", 3e6}};
  const answers::Figure figure = energy_ledger_figure({{"one step", &joules}});
  CHECK(std::get<std::string>(figure.table.rows[0][0]) == "compute");
  CHECK(contains(figure.title, "75 %"));
  CHECK(contains(figure.title, "compute"));
}

TEST_CASE("plots: a value holds until the next stamp, so a slow sensor has no holes") {
  run::Run run;
  run.series.push_back({"die_c", 0, false, {}, {}});
  for (int i = 0; i < 100; ++i) {
    if (i % 10 != 0 && i < 50) continue;  // slow, then fast
    run.series[0].times.push_back(instant_at(i * unit::s));
    run.series[0].values.push_back(40);
  }
  const Json plots = answers::plots_json(answers::plots_of(run));
  for (const Json& value : plots[0]["curves"][0]["values"])
    CHECK(value == 40.0);
}

TEST_CASE("plots: reasons become a share of time, and idle is no throttling") {
  run::Run run;
  run.series.push_back({"throttle_reasons", 0, false, {}, {}});
  for (int i = 0; i < 10; ++i) {
    run.series[0].times.push_back(instant_at(i * unit::s));
    run.series[0].values.push_back(i < 5 ? 1 : 4);
  }
  const Json values = answers::plots_json(answers::plots_of(run))[0]["curves"][0]["values"];
  CHECK(values[0] == 0.0);
  CHECK(values[9] == 100.0);
}

TEST_CASE("plots: residency counters tell the throttling that polled bits have missed") {
  run::Run run;
  run.series.push_back({"throttle_reasons", 0, false, {}, {}});
  run.series.push_back({"throttle_ns_sw_power_cap", 0, false, {}, {}});
  run.series.push_back({"throttle_reasons", 1, false, {}, {}});
  run.series.push_back({"throttle_ns_hw_slowdown", 0, false, {}, {}});
  for (int i = 0; i < 10; ++i) {
    for (run::Series& series : run.series)
      series.times.push_back(instant_at(i * unit::s));
    run.series[0].values.push_back(0);
    run.series[1].values.push_back(0.3e9 * i);
    run.series[2].values.push_back(8);
    run.series[3].values.push_back(0.2e9 * i);  // no poll saw it beside the cap: counted once
  }
  const Json curves = answers::plots_json(answers::plots_of(run))[0]["curves"];
  REQUIRE(curves.size() == 2);
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(curves[0]["values"][i] == 30.0);
  CHECK(curves[1]["values"][5] == 100.0);
}

TEST_CASE("plots: without a true mean the sensor's own view is drawn") {
  run::Run run;
  run.series.push_back({"power_average_w", 0, false, {Instant(0)}, {300}});
  CHECK(answers::plots_json(answers::plots_of(run))[0]["unit"] == "power (W)");
}

TEST_CASE("run page: what sensors measured is said with scope and period") {
  run::Run run = sample_run();
  run.manifest.hosts = {"node-<1>"};
  run.sources.push_back({.signal = "power_w", .sensor = "nvml field 186", .period = 0.1 * unit::s});
  const std::string page = with_plain_blanks(run_page(run, metrics_of_32()));
  CHECK(contains(page, "nvml field 186"));
  CHECK(contains(page, "100 ms"));
  CHECK(contains(page, "node-&lt;1&gt;"));
}

TEST_CASE("run page: the energy of a recording says of which GPUs it is") {
  run::Run run = sample_run();
  run.numbers.recording_energy_j = 32165.3;
  run.numbers.recording_energy_uncertainty_j = 2714.5;
  const auto page = [&] { return with_plain_blanks(run_page(run, metrics_of_32())); };
  CHECK(contains(page(), "32.2 <i>kJ</i>"));
  CHECK(contains(page(), "± 8.4 %, of GPUs"));  // of which was not recorded
  run.numbers.gpus_without_energy = 0;
  CHECK(contains(page(), "± 8.4 %, all GPUs"));
  run.devices.resize(8);
  run.numbers.gpus_without_energy = 1;
  CHECK(contains(page(), "± 8.4 %, 7 of 8 GPUs"));
}

TEST_CASE("run page: numbers of a prediction are counted by kind") {
  const std::vector<spec::Provenance> numbers = {
      {"gpu.tdp", "700 W", spec::NumberKind::datasheet, "its maker", "gpus/h200.toml", 3},
      {"gpu.a", "1", spec::NumberKind::assumed, "unknown", "gpus/h200.toml", 4}};
  CHECK(contains(manifest_sections(sample_run(), numbers), "1 datasheet, 1 assumed"));
}

TEST_CASE("run page: a single GPU has a table of what maps show of many") {
  run::Run run = sample_run();
  run.devices.resize(1);
  metrics::Metrics m;
  m.temperature_per_gpu_c = {61.5};
  m.power_per_gpu_w = {432};
  const std::string alone = run_page(run, m);
  CHECK(!contains(alone, "map-power"));
  CHECK(contains(alone, "The GPU of this run"));
  CHECK(contains(alone, "61.50\u00a0°C"));
  CHECK(contains(alone, "432.0\u00a0W"));
  CHECK(!contains(alone, "#map-"));
  const std::string many = run_page(sample_run(), metrics_of_32());
  CHECK(contains(many, "map-power"));
  CHECK(!contains(many, "The GPU of this run"));
}

TEST_CASE("run page: findings link to elements that are there") {
  run::Run run = run_with_chassis();
  metrics::Metrics m = metrics_of_32();
  m.step_time = 20 * unit::s;
  m.kernels.compute = 12 * unit::s;
  m.stages = {{0, m.kernels, {}, {}, {}}};
  m.throttle = {{"software_power_cap", 0.4}};
  m.energy_ledger_j = {{"compute", 5e5}};
  m.bottlenecks = {{.who = {3}, .evidence = {{run::Evidence::Kind::clock, 1500, 1800}}}};
  const std::string page = with_plain_blanks(run_page(run, m));
  const auto findings = answers::run_findings(run, m);
  CHECK(findings.size() == 5);
  for (const answers::Remark& finding : findings) {
    CHECK(contains(page, "id=\"" + finding.shown_by + "\""));
    CHECK(contains(page, with_plain_blanks(escape(finding.text))));
  }
}

TEST_CASE("run page: what a fault did is said, and who was waited for") {
  run::Run run = sample_run();
  spec::Fault fault;
  fault.gpu = 1;
  fault.share = 0.5;
  fault.begin = 4 * unit::s;
  run.manifest.job->environment.faults = {fault};
  run.series.clear();
  run.steps.clear();
  for (const run::Device& device : run.devices)
    run.series.push_back({.signal = "sm_clock_mhz",
                          .device = device.index,
                          .of_node = false,
                          .times = {instant_at(4 * unit::s), instant_at(8 * unit::s)},
                          .values = {1800, device.index == 1 ? 900.0 : 1850.0}});
  for (const double begin : {0.0, 1.0, 2.0, 4.0, 6.0})
    run.steps.push_back({.begin = instant_at(begin * unit::s),
                         .end = instant_at((begin + (begin < 4 ? 1 : 1.5)) * unit::s)});
  const auto findings = answers::run_findings(run, metrics_of_32());
  REQUIRE(!findings.empty());
  CHECK(contains(findings[0].text, "Steps take 50 % longer than before it."));
  CHECK(contains(findings[0].text, " others wait for GPU 1."));
  CHECK(std::ranges::any_of(findings, [](const answers::Remark& finding) {
    return contains(finding.text, "The hottest GPU in the last step is");
  }));
  CHECK(contains(run_page(run, metrics_of_32()), "id=\"" + findings[0].shown_by + "\""));
}

TEST_CASE("kernels that compute for less time than the MFU needs are called incomplete") {
  metrics::Metrics m = metrics_of_32();
  m.step_time = 10 * unit::s;
  m.kernels.compute = 0.9 * unit::s;
  m.mfu = 0.52;
  const auto text_of = [&] { return answers::run_findings(sample_run(), m).front().text; };
  CHECK(contains(text_of(), "less than an MFU of 52 % needs"));
  m.kernels.compute = 7 * unit::s;
  CHECK(contains(text_of(), "70 % is matrix products and attention"));
}

TEST_CASE("a single held GPU is named, and of equally warm GPUs none is the hottest") {
  metrics::Metrics m;
  m.temperature_per_gpu_c = {80, 80.2, 79.9, 80};
  m.throttle = {{"hardware_power_brake", 0.25}};
  m.throttle_per_gpu = {{"hardware_power_brake", {0, 0, 0, 1}}};
  const auto findings = answers::run_findings(sample_run(), m);
  const auto tells = [&](const std::string& words) {
    return std::ranges::any_of(findings, [&](const auto& f) { return contains(f.text, words); });
  };
  CHECK(tells("GPU 3 is throttled 100 % of the time by the power brake, no other is"));
  CHECK(tells("equally warm"));
  CHECK_FALSE(tells("The hottest GPU"));
  m.throttle_per_gpu = {{"hardware_power_brake", {0.2, 0.3, 0.2, 0.3}}};
  m.temperature_per_gpu_c = {70, 80};
  CHECK(std::ranges::any_of(answers::run_findings(sample_run(), m), [](const auto& f) {
    return contains(f.text, "GPUs are throttled 25 % of the time");
  }));
}

/// Two stages, each with a forward and a backward pass.
run::Run run_with_passes() {
  run::Run run;
  run::PatternPiece second;
  second.length = 1 * unit::s;
  run.timeline.patterns = {{"forward", {second}}, {"backward", {second}}};
  for (const int32_t stage : {0, 1})
    for (const int32_t pattern : {0, 1})
      run.timeline.instances.push_back(
          {instant_at((stage + 2 * pattern) * unit::s), pattern, 4 * stage, stage, 0});
  run.timeline.num_ranks = 8;
  return run;
}

TEST_CASE("pipeline: a row per stage, a mark per pass, and how much of the step it works") {
  const Drawing figure = pipeline_figure(run_with_passes());
  REQUIRE(figure.table.rows.size() == 2);
  const auto text = [](const DataCell& cell) { return std::get<std::string>(cell); };
  CHECK(mapped(figure.table.rows[1], text) == std::vector<std::string>{"1", "2", "2.00", "50 %"});
  for (const char* style : {"<rect class=\"p-forward\"", "<rect class=\"p-backward\""}) {
    std::size_t marks = 0;
    for (std::size_t at = figure.markup.find(style); at != figure.markup.npos;
         at = figure.markup.find(style, at + 1))
      ++marks;
    CHECK(marks >= 2);
  }
}

TEST_CASE("pipeline: one stage alone, or no passes, draw nothing") {
  run::Run run = run_with_passes();
  run.timeline.instances.resize(2);
  CHECK(pipeline_figure(run).markup.empty());
  CHECK(pipeline_figure(run::Run()).markup.empty());
}

TEST_CASE("figures of a run: each is drawn once, and those that are not known are left out") {
  CHECK(run_figures(run::Run(), metrics::Metrics()).empty());
  const std::vector<Drawing> figures = run_figures(run_with_chassis(), metrics_of_32());
  CHECK(holds(figures, "chassis", &Drawing::id));
  for (const Drawing& figure : figures)
    CHECK(!figure.markup.empty());
}

}  // namespace
}  // namespace triplepoint::report
