// SPDX-License-Identifier: Apache-2.0
// Tables of temperatures in the forms that people have them.
#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/text.h"

#include "triplepoint/advise/thermal_groups.h"

namespace triplepoint::advise {
namespace {

Result<std::vector<ThermalSample>> read(const std::string& text, const TableChoice& choice = {}) {
  return read_thermal_table(CsvTable::parse(text, "table.csv").value(), choice);
}

std::string refusal(const std::string& text, const TableChoice& choice = {}) {
  const auto samples = read(text, choice);
  REQUIRE(!samples);
  return samples.error().what;
}

TEST_CASE("a column for each GPU, and a row for each quantity") {
  const auto samples =
      must(read("panel,config,gpu0,gpu1\n"
                "avg_temp_C,a,60,50\n"
                "clock_MHz,a,1700,1800\n"
                "avg_temp_C,Avg,1,1\n"
                "something else,a,3,4\n"));
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].temperature_c == 60);
  CHECK(samples[1].clock_mhz == 1800);
}

TEST_CASE("a table that says nothing of GPUs' heat is refused") {
  CHECK(contains(refusal("index,power_w\n0,600\n"), "no columns gpu0"));
}

TEST_CASE("what stands for a sensor that is not there is no reading") {
  const auto samples = must(read("panel,gpu0,gpu1,gpu2\navg_temp_C,0,255,60\npower_W,0,600,600\n"));
  CHECK(!samples[0].temperature_c);
  CHECK(!samples[1].temperature_c);
  CHECK(!samples[0].power_w);
  CHECK(samples[2].temperature_c == 60);
}

TEST_CASE("of another sampler's recording each moment is a sample") {
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run.devices = {{.index = 0, .node = 1, .local = 2}, {.index = 1, .node = 1, .local = 3}};
  run.series.push_back(
      {.signal = "junction_c", .device = 0, .times = {Instant(0), Instant(1)}, .values = {60, 70}});
  run.series.push_back(
      {.signal = "power_average_w", .device = 0, .times = {Instant(1)}, .values = {500}});
  const std::vector<ThermalSample> samples = thermal_samples(run);
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].temperature_c == 60);
  CHECK(!samples[0].power_w);
  CHECK(samples[1].power_w == 500);
  CHECK(samples[2].local == 3);
  CHECK(!samples[2].temperature_c);
}

TEST_CASE("samples of one GPU are one mean sample, in order of node and index") {
  const auto means = mean_samples({{.node = 1, .local = 0, .temperature_c = 50},
                                   {.node = 0, .local = 3, .temperature_c = 60},
                                   {.node = 1, .local = 0, .temperature_c = 54, .power_w = 600}});
  REQUIRE(means.size() == 2);
  CHECK(means[0].local == 3);
  CHECK(means[1].temperature_c == 52);
  CHECK(means[1].power_w == 600);  // of those that have it
}

}  // namespace
}  // namespace triplepoint::advise
