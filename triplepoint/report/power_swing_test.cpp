// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/power_swing.h"

#include <doctest/doctest.h>

#include "triplepoint/report/run_page.h"

namespace triplepoint::report {
namespace {

bool contains(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

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
  const auto profile = metrics::power_profile(run_with_power(6));
  REQUIRE(profile);
  const Figure figure = power_swing_figure(*profile);
  CHECK(contains(figure.title, "8.00 kW"));
  CHECK(contains(figure.title, "40 %"));
  CHECK(figure.table.rows.size() == 3);
  CHECK(contains(figure.drawing, "<svg"));
  const auto finding = swing_finding(*profile);
  REQUIRE(finding);
  CHECK(finding->anchor == figure.id);
}

TEST_CASE("swing: a steady site is no finding") {
  const auto profile = metrics::power_profile(run_with_power(9.5));
  REQUIRE(profile);
  CHECK(!swing_finding(*profile));
}

metrics::RunWear wear_of_two(double fast) {
  metrics::RunWear wear;
  for (const double total : {1.0, fast})
    wear.devices.push_back(metrics::Wear{.electromigration = total, .oxide = total});
  wear.lowest = 1;
  wear.highest = fast;
  wear.worst_device = 1;
  return wear;
}

TEST_CASE("wear: seats that differ are a finding and a map on the page, equal ones are not") {
  const auto finding = wear_finding(wear_of_two(2));
  REQUIRE(finding);
  CHECK(contains(finding->text, "GPU 1 wears fastest, 2.00 times"));
  CHECK(!wear_finding(wear_of_two(1.02)));
  const std::string page = run_page(run_with_power(6), {}, {}, wear_of_two(2));
  CHECK(contains(page, "id=\"map-wear\""));
  CHECK(contains(page, "id=\"power-swing\""));
}

}  // namespace
}  // namespace triplepoint::report
