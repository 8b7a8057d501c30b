// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/paper_figures.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/report/figures/artifact_name.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

PaperJob job(const std::string& layout, const std::string& variant, int64_t microbatch,
             const std::string& machine = "32 x H200") {
  PaperJob made{"gpt3-175b", machine, "", layout, variant, microbatch, 4};
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

std::string svg_of(int64_t number, const std::vector<PaperJob>& all,
                   const FigureChoice& choice = {}) {
  const auto figure = paper_figure(number, all, choice);
  REQUIRE(figure.has_value());
  return figure->svg;
}

TEST_CASE("paper figures: each stands alone, with fonts and colours in it") {
  for (const int64_t number : paper_figure_numbers()) {
    const std::string svg = svg_of(number, jobs());
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(contains(svg, "font-family"));
    CHECK(!contains(svg, "class="));
    CHECK(!contains(svg, "var(--"));
    CHECK(!contains(svg, "nan"));
  }
}

TEST_CASE("paper figures: FSDP stands first") {
  const std::string svg = svg_of(4, jobs());
  CHECK(svg.find("TP8-FSDP") < svg.find("TP8-PP4"));
}

TEST_CASE("paper figures: a job without room is drawn as such") {
  CHECK(contains(svg_of(8, jobs()), "<title>out of memory</title>"));
  CHECK(contains(svg_of(3, jobs()), ">OOM</text>"));
}

TEST_CASE("paper figures: figure 3 shows all machines, the others one") {
  CHECK(contains(svg_of(3, jobs()), "64 x H100"));
  CHECK(!contains(svg_of(8, jobs()), "TP8-PP8"));
}

TEST_CASE("paper figures: a sweep shows only layouts with several microbatches") {
  const std::string svg = svg_of(13, jobs());
  CHECK(contains(svg, "TP8-PP4 mbs4"));
  CHECK(!contains(svg, "TP8-FSDP"));
}

TEST_CASE("paper figures: every GPU's bar adds up to the whole") {
  CHECK(contains(svg_of(10, jobs()), "base, compute: 12"));
}

TEST_CASE("paper figures: figure 3 is about recompute and overlap, as in the paper") {
  std::vector<PaperJob> all = jobs();
  all.push_back(job("TP2-PP16", "recompute+overlap", 1));
  CHECK(contains(svg_of(3, all), "TP2-PP16"));
  CHECK(!contains(svg_of(3, all), "TP8-PP4"));
}

TEST_CASE("paper figures: tasks of one model stand apart, with labels that differ") {
  std::vector<PaperJob> all = jobs();
  for (const char* variant : {"base", "recompute"}) {
    all.push_back(job("TP8-PP4", variant, 1));
    all.back().task = "lora";
  }
  const std::string svg = svg_of(8, all);
  CHECK(contains(svg, ">gpt3-175b</text>"));
  CHECK(contains(svg, ">gpt3-175b (lora)</text>"));
  // A task without the variant that the figure is about is drawn with what it has.
  for (PaperJob& one : all)
    if (!one.task.empty()) one.variant = "base";
  CHECK(contains(svg_of(4, all), ">gpt3-175b (lora)</text>"));
}

TEST_CASE("paper figures: jobs without an efficiency have no axis for it") {
  std::vector<PaperJob> all = jobs();
  CHECK(contains(svg_of(4, all), "efficiency, samples"));
  for (PaperJob& one : all)
    one.efficiency.reset();
  CHECK(!contains(svg_of(4, all), "efficiency, samples"));
}

TEST_CASE("paper figures: placements of the base job are in the maps of heat") {
  std::vector<PaperJob> all = jobs();
  all.push_back(job("TP8-PP4", "placed+uneven", 1));
  const std::string svg = svg_of(17, all);
  CHECK(contains(svg, "TP8-PP4 base"));
  CHECK(contains(svg, "TP8-PP4 placed+uneven"));
}

TEST_CASE("paper figures: clocks of a job's GPUs lie between its fastest and its slowest") {
  PaperJob capped = job("TP8-PP4", "base", 1), even = job("TP2-PP16", "base", 1);
  for (int i = 0; i < 32; ++i) {
    capped.metrics.sm_clock_per_gpu_mhz.push_back(i == 5 ? 1600 : 1700 - i % 2 * 25);
    even.metrics.sm_clock_per_gpu_mhz.push_back(1980);
  }
  const std::string svg = svg_of(17, {capped, even});
  CHECK(contains(svg, "gpt3-175b TP8-PP4, GPU 5: 1.00<"));
  CHECK(contains(svg, "gpt3-175b TP8-PP4, GPU 4: 0<"));
  CHECK(contains(svg, "gpt3-175b TP8-PP4, GPU 7: 0.250<"));
  CHECK(contains(svg, "gpt3-175b TP2-PP16, GPU 5: 0<"));
}

TEST_CASE("paper figures: a machine and a model can be chosen, and what is left out is said") {
  const std::vector<PaperJob> all = jobs();
  const auto of_h100 = paper_figure(17, all, {.machine = "h100", .model = ""});
  REQUIRE(of_h100.has_value());
  CHECK(contains(of_h100->svg, "TP8-PP8"));
  CHECK(!contains(of_h100->svg, "TP8-PP4"));
  CHECK(of_h100->left_out ==
        "it shows 1 of 8 jobs: 64 x H100; gpt3-175b; base; microbatch 1; --machine and --model "
        "choose others");
  // Of 32 x H200 the third base job ran out of memory, which a map cannot show.
  CHECK(
      contains(paper_figure(17, all)->left_out,
               "it shows 2 of 8 jobs: 32 x H200; gpt3-175b; base; microbatch 1; not drawn, as out "
               "of memory: gpt3-175b TP1-PP32 base"));
  CHECK(contains(paper_figure(4, all)->left_out, "it shows 2 of 8 jobs"));
  CHECK(paper_figure(17, {job("TP8-PP4", "base", 1)})->left_out.empty());
  const auto none = paper_figure(17, jobs(), {.machine = "", .model = "llama"});
  REQUIRE_FALSE(none);
  CHECK(none.error().what ==
        "no job's model contains 'llama' (there are: gpt3-175b); choose one of them");
}

TEST_CASE("paper figures: what was received is drawn where counters tell it, else what was sent") {
  std::vector<PaperJob> all = {job("TP8-PP4", "base", 1)};
  CHECK(contains(svg_of(5, all), "GPU 0: 0.931 GiB received"));
  all[0].metrics.links.scale_up_received_per_gpu_bytes.assign(32, 2.0 * 1024 * 1024 * 1024);
  all[0].metrics.links.pcie_received_per_gpu_bytes.assign(32, 4.0 * 1024 * 1024 * 1024);
  CHECK(contains(svg_of(5, all), "GPU 0: 2.00 GiB received"));
  CHECK(contains(svg_of(5, all), "GPU 0: 4.00 GiB received"));
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

TEST_CASE("paper figures: their numbers are those that are drawn") {
  std::vector<PaperJob> all = jobs();
  all[0].metrics.sm_clock_per_gpu_mhz.assign(32, 1700);
  all[0].metrics.sm_clock_per_gpu_mhz[3] = 1600;
  all[0].metrics.sm_clock_per_gpu_mhz[4] = std::nan("");
  const auto values = [&](int64_t number, const char* quantity) {
    const auto figure = paper_figure(number, all);
    REQUIRE(figure.has_value());
    std::vector<double> found;
    for (const FigureNumber& each : figure->numbers)
      if (each.quantity == quantity) found.push_back(each.value);
    return found;
  };
  // TP8-FSDP and TP8-PP4 with recompute; TP1-PP32 is base, and no job of figure 4.
  CHECK(values(4, "power_peak_w") == std::vector<double>{800, 800});
  CHECK(values(4, "efficiency_samples_per_s_mj") == std::vector<double>{0.5, 0.5});
  CHECK(values(8, "efficiency_over_best") == std::vector<double>{1, 1, 1, 1});
  CHECK(values(8, "out_of_memory") == std::vector<double>{1});
  CHECK(values(10, "kernel_compute_s") == std::vector<double>{12, 12, 12, 12});
  CHECK(values(15, "kernel_send_recv_s").size() == 8);  // four stages, microbatches 1 and 4
  CHECK(values(5, "pcie_received_gib").empty());
  CHECK(values(5, "nvlink_received_gib").at(1) == doctest::Approx(2e9 / 1073741824.0));
  // Of the row that knows clocks, and the same again as the mean over rows; one GPU has none.
  CHECK(values(17, "clock_below_fastest").size() == 62);
  CHECK(values(17, "clock_below_fastest").at(3) == doctest::Approx(1));
}

TEST_CASE("paper figures: numbers as a table name job, stage and GPU") {
  const std::vector<PaperJob> all = jobs();
  const PaperFigure stages = paper_figure(15, all).value();
  const std::string csv = figure_csv("15", stages);
  CHECK(csv.starts_with(
      "figure,model,task,machine,layout,variant,microbatch,quantity,stage,gpu,value\n"
      "15,gpt3-175b,,32 x H200,TP8-PP4,recompute,1,kernel_compute_s,0,,12\n"));
  CHECK(contains(csv, "15,gpt3-175b,,32 x H200,TP8-PP4,recompute,4,kernel_send_recv_s,3,,3\n"));
  const std::string heat = figure_csv("17", paper_figure(17, all).value());
  CHECK(contains(heat, "17,gpt3-175b,,32 x H200,TP8-FSDP,base,1,temperature_c,,31,81\n"));
  CHECK(contains(heat, "17,,,,Per-GPU Avg.,,,temperature_c,,31,81\n"));
}

TEST_CASE("paper figures: of two recordings of one job that of the figure's sweep is drawn") {
  std::vector<PaperJob> all = {job("TP8-PP4", "recompute", 1), job("TP8-PP4", "recompute", 2),
                               job("TP8-PP4", "recompute", 1)};
  all[0].sweep = all[1].sweep = "microbatch-sweep-h200";
  all[2].sweep = "optimization-sweep-h200";
  all[2].metrics.power_mean_w = 601;
  const auto power = [&](int64_t number) {
    const PaperFigure figure = paper_figure(number, all).value();
    for (const FigureNumber& each : figure.numbers)
      if (each.quantity == "power_mean_w") return each.value;
    return 0.0;
  };
  CHECK(power(4) == 601);
  CHECK(power(13) == 600);
}

TEST_CASE("artifact names: model, layout, variant and microbatch come out of the name") {
  const auto sweep = parse_artifact_name("gpt3-175b_1_mbs4", ArtifactSweep::h200);
  REQUIRE(sweep);
  CHECK(sweep->layout == "TP2-PP16");
  CHECK(sweep->microbatch == 4);
  CHECK(sweep->pipeline == 16);
  const auto both = parse_artifact_name("mixtral-8x7b_2_11000", ArtifactSweep::h100);
  REQUIRE(both);
  CHECK(both->layout == "EP4-TP4-PP1");
  CHECK(both->variant == "recompute+overlap");
  // Adapters and inference have other layouts, and no recompute.
  const auto lora = parse_artifact_name("gpt3-175b_5_mbs2", ArtifactSweep::adapters);
  REQUIRE(lora);
  CHECK(lora->layout == "TP1-PP1");
  CHECK(lora->variant == "base");
  for (const char* other : {"job", "gpt3-175b_9_01000", "gpt3-175b_1_2", "_1_mbs1", "a_b_mbs0"})
    CHECK_FALSE(parse_artifact_name(other, ArtifactSweep::h200));
}

}  // namespace
}  // namespace triplepoint::report
