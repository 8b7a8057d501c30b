// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/paper_figures.h"

#include <doctest/doctest.h>

#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

PaperJob job(const std::string& layout, const std::string& variant, int64_t microbatch,
             const std::string& machine = "32 x H200") {
  PaperJob made{"gpt3-175b", machine, layout, variant, microbatch, 4};
  metrics::Metrics& m = made.metrics;
  m.temperature_mean_c = 60;
  m.temperature_peak_c = 70;
  m.power_mean_w = 600;
  m.power_peak_w = 800;
  m.sm_clock_mean_mhz = 1700;
  for (int i = 0; i < 32; ++i) {
    m.temperature_per_gpu_c.push_back(50 + i);
    m.links.scale_up_per_gpu_bytes.push_back(1e9 * (1 + i));
  }
  made.efficiency = 0.5;
  metrics::KernelSeconds kernels;
  kernels.compute = 12 * unit::s;
  kernels.send_recv = 3 * unit::s;
  for (int32_t stage = 0; stage < 4; ++stage)
    made.kernels[stage] = kernels;
  return made;
}

std::vector<PaperJob> jobs() {
  std::vector<PaperJob> all;
  for (const char* layout : {"TP8-PP4", "TP8-FSDP"})
    for (const char* variant : {"base", "recompute"})
      all.push_back(job(layout, variant, 1));
  for (const int64_t microbatch : {2, 4})
    all.push_back(job("TP8-PP4", "recompute", microbatch));
  all.push_back(job("TP8-PP8", "base", 1, "64 x H100"));
  all.push_back(job("TP1-PP32", "base", 1));
  all.back().fits_memory = false;
  return all;
}

TEST_CASE("paper figures: each stands alone, with fonts and colours in it") {
  for (const int64_t number : paper_figure_numbers()) {
    const auto svg = paper_figure(number, jobs());
    REQUIRE(svg);
    CHECK(svg->starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(contains(*svg, "font-family"));
    CHECK(!contains(*svg, "class="));
    CHECK(!contains(*svg, "var(--"));
    CHECK(!contains(*svg, "nan"));
  }
}

TEST_CASE("paper figures: FSDP stands first") {
  const std::string svg = *paper_figure(4, jobs());
  CHECK(svg.find("TP8-FSDP") < svg.find("TP8-PP4"));
}

TEST_CASE("paper figures: a job without room is drawn as such") {
  CHECK(contains(*paper_figure(8, jobs()), "<title>out of memory</title>"));
  CHECK(contains(*paper_figure(3, jobs()), ">OOM</text>"));
}

TEST_CASE("paper figures: figure 3 shows all machines, the others one") {
  CHECK(contains(*paper_figure(3, jobs()), "64 x H100"));
  CHECK(!contains(*paper_figure(8, jobs()), "TP8-PP8"));
}

TEST_CASE("paper figures: a sweep shows only layouts with several microbatches") {
  const std::string svg = *paper_figure(13, jobs());
  CHECK(contains(svg, "TP8-PP4 mbs4"));
  CHECK(!contains(svg, "TP8-FSDP"));
}

TEST_CASE("paper figures: every GPU's bar adds up to the whole") {
  CHECK(contains(*paper_figure(10, jobs()), "base, compute: 12"));
}

TEST_CASE("paper figures: what is missing is said") {
  std::vector<PaperJob> bare = {job("TP8-PP4", "base", 1)};
  bare[0].kernels.clear();
  bare[0].metrics.temperature_per_gpu_c.clear();
  bare[0].metrics.links.scale_up_per_gpu_bytes.clear();
  for (const int64_t number : {3, 5, 10, 15, 17})
    CHECK_FALSE(paper_figure(number, bare));
  CHECK_FALSE(paper_figure(6, jobs()));
  CHECK_FALSE(paper_figure(4, {}));
}

TEST_CASE("artifact names: model, layout, variant and microbatch come out of the name") {
  const auto sweep = parse_artifact_name("gpt3-175b_1_mbs4", 32);
  REQUIRE(sweep);
  CHECK(sweep->layout == "TP2-PP16");
  CHECK(sweep->microbatch == 4);
  CHECK(sweep->pipeline == 16);
  const auto both = parse_artifact_name("mixtral-8x7b_2_11000", 64);
  REQUIRE(both);
  CHECK(both->layout == "EP4-TP4-PP1");
  CHECK(both->variant == "recompute+overlap");
  for (const char* other : {"job", "gpt3-175b_9_01000", "gpt3-175b_1_2", "_1_mbs1", "a_b_mbs0"})
    CHECK_FALSE(parse_artifact_name(other, 32));
}

}  // namespace
}  // namespace triplepoint::report
