// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/run_figures.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_objects.h"

namespace triplepoint::answers {
namespace {

using metrics::measure;

run::Run trained_run() {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  run.steps = {{.begin = Instant(0), .end = Instant(2000000000), .samples = 8, .tokens = 800}};
  for (int32_t device : {0, 1}) {
    run.devices.push_back({.index = device, .local = device, .slot = device, .rank = device});
    run.summaries.push_back({.power_mean_w = 500.0, .energy_j = 1000.0, .die_mean_c = 60.0});
  }
  return run;
}

const KeyFigure* figure(const std::vector<KeyFigure>& figures, std::string_view label) {
  return find_in(figures, label, &KeyFigure::label);
}

TEST_CASE("figures that a run does not know are left out") {
  const run::Run run = trained_run();
  const std::vector<KeyFigure> figures = key_figures(run, measure(run));
  REQUIRE(figure(figures, "step time") != nullptr);
  CHECK(figure(figures, "step time")->value == "2.00 s");
  CHECK(figure(figures, "speed")->value == "400 tokens/s");
  CHECK(figure(figures, "MFU") == nullptr);
  CHECK(figure(figures, "SM clock") == nullptr);
  metrics::Metrics partly;
  partly.mfu = 0.4;  // but no HFU, no speed, no peaks
  partly.temperature_mean_c = 60;
  for (const auto& of : {figures, key_figures(run, partly)})
    for (const KeyFigure& each : of) {
      CHECK_MESSAGE((each.value + each.remark).find("–") == std::string::npos, each.label);
      CHECK_MESSAGE(!each.remark.ends_with("HFU "), each.label);
    }
}

TEST_CASE("a job without figures has none, and no throttle reason is not 'not throttled'") {
  CHECK(std::ranges::none_of(key_figures({}, {}), [](const KeyFigure& each) {
    return each.value.empty() || each.value == "–";
  }));
  CHECK(throttle_text({}) == "reasons for lower clocks not recorded");
  metrics::Metrics known;
  known.throttle = {{"software_power_cap", 0.0}};
  known.throttled_per_gpu = {0.0};
  CHECK(throttle_text(known) == "not throttled");
  known.throttle["software_power_cap"] = 0.41;
  CHECK(throttle_text(known).find("throttled 41 % by") == 0);
}

TEST_CASE("an interval stands before what belongs to a step, with its level") {
  run::Run run = trained_run();
  run.numbers.step_time_low_s = 1.8, run.numbers.step_time_high_s = 2.2;
  const auto remark = [&] { return figure(key_figures(run, measure(run)), "step time")->remark; };
  CHECK(remark().find("likely 1.80-2.20 (80 % interval); ") == 0);
  run.numbers.own_runs = 3;
  CHECK(remark().find("likely 1.80-2.20 (80 % interval, from 3 own runs); ") == 0);
}

TEST_CASE("a whole run in which training stood still says how seldom a step ends") {
  run::Run run = trained_run();
  run.manifest.origin = run::Origin::simulated;
  run.manifest.job.emplace();
  run.devices.resize(1);
  run.series.push_back(
      {.signal = "power_w", .times = {instant_at(60 * unit::s)}, .values = {500.0}});
  for (int k = 1; k < 30; ++k)
    run.steps.push_back(
        {.begin = instant_at(2 * k * unit::s), .end = instant_at(2 * (k + 1) * unit::s)});
  const auto remark = [&] { return figure(key_figures(run, measure(run)), "whole run")->remark; };
  CHECK(remark().starts_with("a step, mean of 30 in 60.0 s; "));
  for (size_t k = 10; k < run.steps.size(); ++k)
    run.steps[k].begin = run.steps[k].begin + 30 * unit::s,
    run.steps[k].end = run.steps[k].end + 30 * unit::s;
  run.series.front().times = {instant_at(90 * unit::s)};
  CHECK(remark().starts_with("a step, mean of 30 in 90.0 s, or 3.00 s with the time lost; "));
}

TEST_CASE("a run over time has the energy of its tokens until the last step ends") {
  run::Run run = trained_run();
  CHECK_FALSE(whole_run_of(run));
  run.manifest.origin = run::Origin::simulated;
  run.manifest.job.emplace();
  run.devices.resize(1);
  run.series = {{"power_w", 0, false, {instant_at(6 * unit::s)}, {500}}};
  run.steps = {{instant_at(0 * unit::s), instant_at(2 * unit::s), 1, 100},
               {instant_at(2 * unit::s), instant_at(4 * unit::s), 1, 100}};
  REQUIRE(whole_run_of(run));
  CHECK(whole_run_of(run)->time_per_step == 2 * unit::s);
  CHECK(whole_run_of(run)->gpu_joules_per_token.value() == doctest::Approx(500 * 4 / 200.0));
}

TEST_CASE("a run that ends while a lost node restarts has lost that time to all of its steps") {
  run::Run run = trained_run();
  run.manifest.origin = run::Origin::simulated;
  run.manifest.job.emplace();
  run.devices.resize(1);
  run.series = {
      {"power_w", 0, false, {instant_at(4 * unit::s), instant_at(10 * unit::s)}, {500, 100}}};
  run.steps = {{instant_at(0 * unit::s), instant_at(2 * unit::s), 1, 100},
               {instant_at(2 * unit::s), instant_at(4 * unit::s), 1, 100}};
  run.manifest.job->environment.faults = {
      {.kind = spec::FaultKind::node_lost, .begin = 4 * unit::s, .restart = 30 * unit::s}};
  const WholeRun whole = whole_run_of(run).value();
  CHECK(whole.time_per_step == 5 * unit::s);
  CHECK(whole.gpu_joules_per_token.value() == doctest::Approx((500 * 4 + 100 * 6) / 200.0));
}

TEST_CASE("of a machine without modelled power a whole run tells its steps alone") {
  run::Run run = trained_run();
  run.manifest.origin = run::Origin::simulated;
  run.manifest.job.emplace();
  run.numbers.duration_s = 5;
  run.steps = {{instant_at(0 * unit::s), instant_at(2 * unit::s), 1, 100},
               {instant_at(2 * unit::s), instant_at(4 * unit::s), 1, 100}};
  CHECK(figure(key_figures(run, measure(run)), "whole run")->remark ==
        "a step, mean of 2 in 5.00 s");
  CHECK(figure(key_figures(run, measure(run)), "last step"));
  run.series = {{"sm_clock_mhz", 0, false, {Instant()}, {1800}}};
  run.summaries.clear();  // as where no step ends
  CHECK(figure(key_figures(run, measure(run)), "SM clock")->remark ==
        "reasons for lower clocks not recorded");
  run.shutdown.emplace();
  CHECK(figure(key_figures(run, measure(run)), "mean step"));
}

TEST_CASE("the table of all figures has what the catalogue labels and the run knows") {
  const run::Run run = trained_run();
  const DataTable table = all_figures(run, measure(run));
  const auto value_of = [&](std::string_view label) -> std::string {
    for (const auto& row : table.rows)
      if (std::get<std::string>(row[0]) == label) return std::get<std::string>(row[1]);
    return "";
  };
  CHECK(value_of("step time") == "2.000");
  CHECK(value_of("GPU energy of a step") == "0.002000");  // MJ
  CHECK(value_of("MFU").empty());
}

TEST_CASE("a hot die of a GPU without known limits is noted, and faults within the last step") {
  run::Run run = trained_run();
  run.manifest.origin = run::Origin::simulated;
  run.manifest.fidelity = run::Fidelity::transient;
  spec::Job& job = run.manifest.job.emplace();
  job.environment.faults = {{.begin = 1 * unit::s, .end = 9 * unit::s}};  // the step ends after 2 s
  run.summaries.front().die_peak_c = 91;
  const auto note_with = [&](std::string_view words) {
    return std::ranges::any_of(notes_of(run),
                               [&](const auto& note) { return contains(note, words); });
  };
  CHECK(note_with("a die reaches 91 °C and no source states a temperature limit"));
  CHECK(note_with("faults came or went within the last step"));
  job.cluster.gpu.governor.emplace().shutdown_temperature = Celsius(95);
  job.environment.faults.front().begin = Seconds();
  CHECK(notes_of(run).empty());
}

TEST_CASE("memory is told of the fullest stage") {
  run::Run run;
  CHECK(run_verdict(run).words.empty());
  run.memory = {{.weights = 10 * unit::GiB}, {.weights = 30 * unit::GiB}};
  CHECK(run_verdict(run).words == "fits in memory");
  CHECK(run_verdict(run).numbers == ": the fullest GPU (stage 1) needs 30.0 GiB");
  run.memory_limit = 80 * unit::GiB;
  run.manifest.fits_memory = false;
  CHECK(run_verdict(run).words == "out of memory");
  CHECK(run_verdict(run).numbers == ": the fullest GPU (stage 1) needs 30.0 GiB of 80.0 GiB");
  CHECK(memory_table(run).rows.size() == 2);
}

TEST_CASE(
    "mean and extremes of a plot are those of its devices, moments without a value left out") {
  const Plot plot{"power_w",
                  "power (W)",
                  {0, 1, 2},
                  {{"GPU 0", Curve::Is::single, {100, std::nullopt, 300}},
                   {"GPU 1", Curve::Is::single, {200, std::nullopt, std::nullopt}}}};
  const auto mean = mean_curve(plot);
  CHECK(mean[0] == 150);
  CHECK_FALSE(mean[1]);
  CHECK(mean[2] == 300);
  CHECK(extremes_of(plot)->lowest == 100);
  CHECK(extremes_of(plot)->highest == 300);
  CHECK_FALSE(extremes_of({}));
}

}  // namespace
}  // namespace triplepoint::answers
