// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/charts/svg_sheet.h"

// The pieces that paper_figures.cpp puts together; no other file includes this.

namespace triplepoint::report {

/// The artifact's scripts take this batch for every run.
inline constexpr double artifact_batch = 128;

/// What the figures of the paper draw of one run, wherever it comes from.
struct PaperJob {
  std::string model, machine;   // "gpt3-175b", "32 x H200"
  std::string task;             // "lora", "prefill", "decode"; empty: pretraining
  std::string layout, variant;  // "TP8-PP4"; "base", "recompute"; a run without a job: its name
  int64_t microbatch = 1, pipeline = 1;
  // Pipelines are the outermost groups of ranks; 1 where the layout is not known.
  int64_t ranks_per_stage = 1;
  bool fits_memory = true;
  int64_t gpus_per_node = 8;
  metrics::Metrics metrics;
  // Of each pipeline stage, mean over its ranks that are seen, one step; classified as the paper's
  // artifact does.
  std::map<int32_t, metrics::KernelSeconds> kernels;
  std::optional<double> efficiency;  // samples/(s MJ)
  std::string sweep = {};            // of an experiment of the artifact: "optimization-sweep-h200"
};
/// `place`: its file or folder. The sweep two folders above says the GPU (h100, h200) and the task
/// (lora, inference) of a recording of the artifact: optimization-sweep-h100/<model>/<name>.
PaperJob paper_job(const run::Run&, metrics::Metrics, const std::string& name,
                   const Path& place = {});

/// The numbers of the figures of the paper that can be drawn.
std::vector<int64_t> paper_figure_numbers();
/// The numbers as text.
std::vector<std::string> figure_names();

/// Which jobs a figure may take; empty: no choice. Part of a name, in any case: "h100" of
/// "64 x H100".
struct FigureChoice {
  std::string machine, model;
};

/// A number that a figure draws.
struct FigureNumber {
  const PaperJob* job = nullptr;  // of those that were given; nothing: mean over the jobs drawn
  std::string quantity;           // with its unit: "power_mean_w", "kernel_compute_s"
  std::optional<int32_t> stage = {}, gpu = {};
  double value = 0;
};

struct PaperFigure {
  std::string svg;
  std::vector<FigureNumber> numbers;  // what is drawn; what is not known is not there
  std::string left_out = {};          // which of the jobs are not in it, in a sentence; empty: none
};

/// Its numbers as one table: figure, model, task, machine, layout, variant, microbatch, quantity,
/// stage, gpu, value; and as rows of JSON with the same keys. The layout of a mean over jobs is
/// "Per-GPU Avg.", as in the artifact's figures.
std::string figure_csv(std::string_view figure, const PaperFigure&);
Json figure_json(const PaperFigure&);

/// A figure of "Characterizing the Efficiency of Distributed Training: A Power, Performance, and
/// Thermal Perspective" (MICRO'25, arXiv 2509.10371) from other runs, as one SVG file:
///
///   3   kernel seconds of each pipeline stage, machine beside machine
///   4   temperature, power, clock and efficiency over layouts
///   5   bytes received by each GPU, over NVLink and PCIe
///   8   as 4, with optimizations switched on
///   10  kernel seconds by class, base beside recompute
///   13  as 4, over microbatch sizes
///   15  as 3 for one machine, over microbatch sizes
///   17  temperature and throttling of each GPU
///
/// Of the jobs, those are drawn that the paper's figure is about: recompute and overlap in 3,
/// recompute in 4, 13 and 15, base in 5 and 17, each with any placement; microbatch 1 but for
/// sweeps; one machine but for 3: the one with most jobs. Of a model and task without such jobs all
/// are drawn. An error says what is missing.
Result<PaperFigure> paper_figure(int64_t number, const std::vector<PaperJob>& all,
                                 const FigureChoice& = {});

/// By a name of figure_names().
Result<PaperFigure> figure_named(std::string_view name, const std::vector<PaperJob>& all,
                                 const FigureChoice&);

using PaperJobs = std::vector<const PaperJob*>;

/// The jobs that a figure shows; an error lists what there is to choose from.
Result<PaperJobs> jobs_of_figure(int64_t number, const std::vector<PaperJob>& all,
                                 const FigureChoice&);
/// "it shows 12 of 193 jobs: 32 x H200; gpt3-175b; base; microbatch 1", or nothing if it shows all.
/// Shown are jobs with a number; those that were chosen and have none are named, with why.
std::string left_out_text(const std::vector<PaperJob>& all, const PaperJobs& chosen,
                          const std::vector<FigureNumber>& numbers);

/// " on 32 x H200", or nothing
std::string machine_text(const PaperJobs&);

/// "gpt3-175b", "gpt3-175b (lora)"
std::string model_and_task(const PaperJob&);

template <class Key>
std::vector<std::string> distinct(const PaperJobs& jobs, const Key& key) {
  std::vector<std::string> found;
  for (const PaperJob* job : jobs)
    if (std::find(found.begin(), found.end(), key(*job)) == found.end()) found.push_back(key(*job));
  return found;
}

/// Of a job that has no other number.
inline constexpr const char* out_of_memory_quantity = "out_of_memory";

/// Jobs that share a heading: a model, or a machine and layout.
struct PaperGroup {
  std::string title;
  PaperJobs jobs;
  std::vector<std::string> labels;  // one per job
};

/// Sorted as the paper does, by layout, variant and microbatch; labels are layouts.
std::vector<PaperGroup> groups_by_model(const PaperJobs&);

/// Three panels (temperature, power, clock), each with mean, peak and efficiency.
PaperFigure panels_figure(const std::string& title, const std::vector<PaperGroup>& groups,
                          bool normalizes_efficiency);

/// A stack of kernel classes per label; groups that are many times higher get their own scale.
struct KernelStack {
  std::string label;
  std::optional<metrics::KernelSeconds> kernels;  // nothing: out of memory
  const PaperJob* job = nullptr;
  std::optional<int32_t> stage = {};
};
struct KernelGroup {
  std::string heading;  // over neighbours that share it; may be empty
  std::string title;
  std::vector<KernelStack> stacks;
};
PaperFigure stacks_figure(const std::string& title, const std::vector<KernelGroup>& groups);

/// GPUs from left to right, jobs from top to bottom.
inline constexpr const char* mean_row_label = "Per-GPU Avg.";
struct MapRow {
  std::string label;
  std::vector<double> values;
  const PaperJob* job = nullptr;  // nothing: mean over the rows
};
struct PaperMap {
  std::string title, unit, quantity;
  std::vector<MapRow> rows;
  bool adds_mean_row = false;
  bool is_logarithmic = false;  // powers of two
  int64_t per_node = 8;
};
PaperFigure maps_figure(const std::string& title, const std::vector<PaperMap>& maps);

}  // namespace triplepoint::report
