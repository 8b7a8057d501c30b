// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/charts.h"

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/report/charts/energy_and_power.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

/// Two nodes that draw 10 kW in three quarters of a step, and `low` kW at its end.
run::Run run_with_power(double low) {
  run::Run run;
  for (int node = 0; node < 2; ++node) {
    run.devices.push_back({.index = node, .node = node});
    run::Series series{.signal = "node_power_w", .device = node, .of_node = true};
    for (int b = 0; b < 100; ++b) {
      series.times.push_back(Instant() + 0.01 * b * unit::s);
      series.values.push_back(b < 75 ? 10e3 : low * 1e3);
    }
    run.series.push_back(std::move(series));
  }
  run.steps.push_back({Instant(), Instant() + 1 * unit::s});
  return run;
}

TEST_CASE("swing: the title says how many kilowatts, the table names every level") {
  const auto profile = must(metrics::power_profile(run_with_power(6)));
  const answers::Section section = answers::power_section(profile);
  const Drawing figure = drawn(section.figures.front());
  CHECK(contains(figure.title, "from 20.0 to 12.0 kW"));
  CHECK(contains(figure.title, "40 %"));
  CHECK(section.tables.front().rows.size() == 3);
  CHECK(contains(figure.markup, "<svg"));
  CHECK(answers::run_findings(run_with_power(6), {}).back().shown_by == figure.id);
}

TEST_CASE("swing: a steady site is no finding") {
  CHECK(answers::run_findings(run_with_power(9.5), {}).empty());
}

TEST_CASE("an axis begins at zero, ends at or above its highest value, and steps evenly") {
  for (double highest : {0.003, 0.99, 1.0, 7.3, 24.9, 1465.0, 3.2e6}) {
    CAPTURE(highest);
    const Axis axis = axis_from_zero(highest);
    CHECK(axis.low == 0);
    CHECK(axis.high >= highest);
    CHECK(axis.high < 2.6 * highest);
    CHECK(axis.ticks.size() >= 3);
    for (std::size_t i = 2; i < axis.ticks.size(); ++i)
      CHECK(axis.ticks[i] - axis.ticks[i - 1] == doctest::Approx(axis.ticks[1] - axis.ticks[0]));
  }
}

TEST_CASE("ticks of one axis never read the same") {
  for (double highest : {0.003, 24.9, 13151.0, 3.2e6}) {
    const Axis axis = axis_from_zero(highest);
    for (std::size_t i = 1; i < axis.ticks.size(); ++i)
      CHECK(axis.tick_text(axis.ticks[i]) != axis.tick_text(axis.ticks[i - 1]));
  }
}

TEST_CASE("one bar that dwarfs the others is cut, bars alike are not") {
  CHECK(cut_above({20, 22, 25, 27, 32, 1465}) < 50);
  CHECK(cut_above({20, 22, 25, 27, 32, 40}) == 40);
  CHECK(cut_above({5}) == 5);
  CHECK(cut_above({}) > 0);
}

TEST_CASE("numbers keep three digits and never turn scientific") {
  CHECK(significant(24.9123) == "24.9");
  CHECK(significant(1465.2) == "1,465");
  CHECK(significant(0.031234) == "0.0312");
  CHECK(significant(0.0) == "0");
  CHECK(significant(std::optional<double>()) == "–");
  CHECK(percent(0.123) == "12 %");
  CHECK(percent(0.0312) == "3.1 %");
}

TEST_CASE("the colour scale goes from dark to light without turning back") {
  const auto lightness = [](const std::string& colour) {
    const auto channel = [&](int at) {
      return std::stoi(colour.substr(as_size(at), 2), nullptr, 16);
    };
    return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  };
  for (int i = 1; i <= 20; ++i)
    CHECK(lightness(heat_colour(i / 20.0)) > lightness(heat_colour((i - 1) / 20.0)));
}

TEST_CASE("groups hold all jobs once, alike ones together") {
  const Study study = sample_study();
  std::size_t rows = 0;
  for (const Group& group : groups_of(study)) {
    rows += group.rows.size();
    for (const StudyRow* row : group.rows)
      CHECK(row->job.model.name == group.rows.front()->job.model.name);
  }
  CHECK(rows == study.rows.size());
}

TEST_CASE("no two jobs below each other have the same label") {
  Study study = sample_study();
  StudyRow twin = study.rows[0];  // differs in something that labels do not say
  twin.name = "twin";
  study.rows.push_back(twin);
  for (const Group& group : groups_of(study)) {
    for (std::size_t i = 1; i < group.rows.size(); ++i) {
      const StudyRow* above = i > 1 ? group.rows[i - 2] : nullptr;
      CHECK(label_below(*group.rows[i], group.rows[i - 1]) !=
            label_below(*group.rows[i - 1], above));
    }
  }
}

TEST_CASE("many devices are drawn as a band that holds their mean") {
  const Json plots = answers::plots_json(answers::plots_of(sample_run(), 100));
  REQUIRE(plots.size() == 3);
  for (const Json& plot : plots) {
    CHECK(plot["times"].size() == 100);
    const Json &high = plot["curves"][0], &low = plot["curves"][1], &mean = plot["curves"][2];
    for (std::size_t i = 0; i < 100; ++i) {
      CHECK(low["values"][i].get<double>() <= mean["values"][i].get<double>());
      CHECK(mean["values"][i].get<double>() <= high["values"][i].get<double>());
    }
  }
}

}  // namespace

}  // namespace triplepoint::report
