// SPDX-License-Identifier: Apache-2.0
// Tables of temperatures in the forms that people have them.
#include <doctest/doctest.h>

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

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("nvidia-smi's CSV reads with the units in its titles and cells") {
  const auto samples = read(
      "index, temperature.gpu, power.draw [W], clocks.sm [MHz]\n"
      "0, 61, 412.33 W, 1755 MHz\n"
      "9, 55, 401.10 W, 1800 MHz\n");
  REQUIRE(samples);
  REQUIRE(samples->size() == 2);
  CHECK((*samples)[0] == ThermalSample{.node = 0,
                                       .local = 0,
                                       .temperature_c = 61,
                                       .power_w = 412.33,
                                       .clock_mhz = 1755,
                                       .throttled = {}});
  CHECK((*samples)[1].node == 1);  // eight GPUs a node, where no column says otherwise
  CHECK((*samples)[1].local == 1);
}

TEST_CASE("indices count through nodes of the size that is said") {
  const auto samples = read("gpu,temp_c\n5,60\n", {.row = {}, .gpus_per_node = 4});
  REQUIRE(samples);
  CHECK(samples->front().node == 1);
  CHECK(samples->front().local == 1);
}

TEST_CASE("nodes are numbered in the order in which their names appear") {
  const auto samples = read("host,index,temp_c\nberta,0,60\nanna,0,61\nberta,1,62\n");
  REQUIRE(samples);
  CHECK((*samples)[0].node == 0);
  CHECK((*samples)[1].node == 1);
  CHECK((*samples)[2].node == 0);
}

TEST_CASE("what was not measured is absent, and a row without any reading is left out") {
  const auto samples = read("index,temp_c,power_w\n0,60,nan\n1,[N/A],600\n32-39,61,600\n2,59,\n");
  REQUIRE(samples);
  REQUIRE(samples->size() == 2);
  CHECK(!(*samples)[0].power_w);
  CHECK((*samples)[1].local == 2);
}

TEST_CASE("a column for each GPU, and a row for each quantity") {
  const auto samples = read(
      "panel,config,gpu0,gpu1\n"
      "avg_temp_C,a,60,50\n"
      "clock_MHz,a,1700,1800\n"
      "avg_temp_C,Avg,1,1\n"
      "something else,a,3,4\n");
  REQUIRE(samples);
  REQUIRE(samples->size() == 2);
  CHECK((*samples)[0].temperature_c == 60);
  CHECK((*samples)[1].clock_mhz == 1800);
}

TEST_CASE("of several sets of GPUs one has to be chosen, by a name that is there") {
  const std::string two = "snapshot_id,index,temp_c\na,0,60\nb,0,50\n";
  CHECK(contains(refusal(two), "--row: a, b"));
  CHECK(contains(refusal(two, {.row = "c"}), "no rows of \"c\""));
  const auto chosen = read(two, {.row = "b"});
  REQUIRE(chosen);
  REQUIRE(chosen->size() == 1);
  CHECK(chosen->front().temperature_c == 50);
}

TEST_CASE("a table that says nothing of GPUs' heat is refused with what would do") {
  CHECK(contains(refusal("index,power_w\n0,600\n"), "no column has temperature"));
  CHECK(contains(refusal("time,value\n0,600\n"), "none that numbers GPUs"));
  CHECK(contains(refusal("index,temp_c\n99999999999,60\n"), "surely a typing error"));
  CHECK(contains(refusal("index,temp_c\n0-7,60\n"), "no GPU has a reading"));
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
