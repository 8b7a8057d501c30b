// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

Group first_group(const Study& study) {
  return groups_of(study).front();
}

TEST_CASE("no job beats one of the front in speed and in energy") {
  const Study study = sample_study();
  const Group group = first_group(study);
  const auto front = pareto_front(group);
  REQUIRE(!front.empty());
  for (const StudyRow* best : front)
    for (const StudyRow* row : group.that_ran())
      CHECK(!(row->metrics->tokens_per_second > best->metrics->tokens_per_second &&
              row->metrics->joules_per_token < best->metrics->joules_per_token));
}

TEST_CASE("numbers far apart are drawn on logarithmic axes, numbers close together are not") {
  ScatterChart chart{"", "x", "y", "c", {{1, 1, 1, "a"}, {1000, 2, 2, "b"}}};
  const std::string svg = scatter_chart_svg(chart);
  CHECK(contains(svg, "x, logarithmic"));
  CHECK(!contains(svg, "y, logarithmic"));
}

TEST_CASE("a map of GPUs has a row per job that ran, and the mean of slots repeats in each node") {
  const Study study = sample_study();
  const Group group = first_group(study);
  const std::vector<DeviceMap> maps = device_maps(group);
  REQUIRE(!maps.empty());
  const HeatMap& temperature = maps.front().map;
  CHECK(temperature.rows.size() == group.that_ran().size() + 2);
  const std::vector<double>& slots = temperature.rows[1].values;
  for (std::size_t i = 8; i < slots.size(); ++i)
    CHECK(slots[i] == slots[i - 8]);
  const Json table = compact_table(temperature);
  CHECK(table["values"].size() == table["labels"].size());
  CHECK(table["columns"].size() == 1 + 32);
}

TEST_CASE("the map of throttling counts reasons at once once and says so") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    if (!row.metrics) continue;
    row.metrics->throttle_per_gpu["hardware_thermal"].assign(32, 0.8);
    row.metrics->throttle_per_gpu["hardware_slowdown"].assign(32, 0.8);
    row.metrics->throttled_per_gpu.assign(32, 0.85);
    row.metrics->throttled_per_gpu.front() = 0.9;
  }
  const std::vector<DeviceMap> maps = device_maps(first_group(study));
  const auto map = std::ranges::find_if(
      maps, [](const DeviceMap& one) { return one.figure.id.starts_with("heat-throttling"); });
  REQUIRE(map != maps.end());
  for (const HeatRow& row : map->map.rows)
    for (const double value : row.values)
      CHECK(value <= 90);
  CHECK(contains(map->figure.note, "reasons at once count once"));
}

TEST_CASE("maps of memory power and of PCIe are there where recordings know them") {
  Study study = sample_study();
  const auto titles_of = [&] {
    std::string titles;
    for (const DeviceMap& one : device_maps(first_group(study)))
      titles += one.figure.id + ": " + one.figure.title + "\n";
    return titles;
  };
  CHECK_FALSE(contains(titles_of(), "heat-pcie"));
  CHECK_FALSE(contains(titles_of(), "heat-memory-power"));
  for (StudyRow& row : study.rows) {
    if (!row.metrics) continue;
    row.metrics->memory_power_per_gpu_w.assign(32, 80);
    row.metrics->memory_power_per_gpu_w[5] = 95;
    row.metrics->links.pcie_received_per_gpu_bytes.assign(32, 2e9);
    row.metrics->links.pcie_sent_per_gpu_bytes.assign(32, 1e9);
    row.metrics->links.pcie_sent_per_gpu_bytes[7] = 3e9;
  }
  CHECK(contains(titles_of(), "PCIe sent: GPU 7 sends most (3.00 GB a step)"));
  CHECK(contains(titles_of(), "PCIe received: all alike"));
  CHECK(contains(titles_of(), "Memory power: slot 5 has the memory that draws most"));
  for (StudyRow& row : study.rows)
    if (row.metrics) row.metrics->memory_power_per_gpu_w[5] = 80.01;
  CHECK(contains(titles_of(), "Memory power: all alike"));
}

TEST_CASE("clusters of thousands of GPUs are shown by their nodes, and stay small") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    if (!row.metrics) continue;
    row.metrics->temperature_per_gpu_c.assign(1024, 50);
    for (std::size_t i = 0; i < 1024; ++i)
      row.metrics->temperature_per_gpu_c[i] += std::fmod(as_real(i) * 0.37, 20);
  }
  const DeviceMap map = device_maps(first_group(study)).front();
  CHECK(map.map.rows[0].values.size() == 128);
  CHECK(map.figure.markup.size() < 100'000);
}

TEST_CASE("what belongs to a job carries its name, in charts and in tables") {
  const Study study = sample_study();
  const std::string page = study_page(study);
  for (const StudyRow& row : study.rows) {
    const std::string mark = "data-job=\"" + escape(row.name) + "\"";
    CHECK_MESSAGE(count_of(page, "<tr " + mark) > 3, row.name);
    CHECK_MESSAGE(count_of(page, "<g " + mark) > 5, row.name);
  }
}

TEST_CASE("the script gets every job with its facets and the way to its run") {
  Study study = sample_study();
  study.rows[0].page = "runs/first.html";
  const Json jobs = jobs_data(study);
  REQUIRE(jobs.size() == study.rows.size());
  CHECK(jobs[0]["page"] == "runs/first.html");
  CHECK(jobs[1]["page"] == "");
  CHECK(jobs[0]["model"] == "gpt3-175b");
  CHECK(jobs[0]["machine"] == "32 x H200");
  CHECK(jobs[0]["layout"] == "TP8-PP4");
  CHECK(jobs[0]["variant"] == "base");
  CHECK(jobs[1]["variant"] == "recompute");
}

TEST_CASE("titles of charts say what was found and not only what is shown") {
  const std::string page = study_page(sample_study());
  for (const char* words : {"is fastest (", "needs least (", "draws most (", "is hottest (",
                            "do not fit in", "throttled most", "slot "})
    CHECK_MESSAGE(contains(page, words), words);
}

TEST_CASE("the page of recordings of unknown jobs has their numbers and no layouts") {
  Study study = sample_study();
  study.rows.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    StudyRow& row = study.rows[i];
    row.name = "recording " + std::string(1, static_cast<char>('a' + i));
    row.has_job = false;
    row.job = {};
    row.origin = run::Origin::measured;
    row.memory.clear();
    row.memory_limit.reset();
    row.slots.resize(32);
  }
  const std::string page = study_page(study);
  CHECK(contains(page, "recording b"));
  CHECK(contains(page, "32 GPUs, job not known"));
  CHECK(contains(page, "Measured"));
  CHECK(!contains(page, "TP1-PP1"));
}

TEST_CASE("machines are compared where a model ran on two, and not where it ran on one") {
  Study study = sample_study();
  CHECK(contains(machines_section(groups_of(study)), "At equal memory"));
  std::erase_if(study.rows, [](const StudyRow& row) { return row.job.cluster.gpu.name != "h200"; });
  CHECK(machines_section(groups_of(study)).empty());
}

}  // namespace
}  // namespace triplepoint::report
