// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/charts/svg_sheet.h"

// The pieces that paper_figures.cpp puts together; no other file includes this.

namespace triplepoint::report {

/// What the name of a result folder of the paper's artifact says: <model>_<index>_<variant>.
struct ArtifactName {
  std::string model, layout, variant;
  int64_t microbatch = 1, pipeline = 1;
};

/// Nothing for other names. The index means a layout, which differs between the cluster of 32 and
/// that of 64 devices; the variant is mbsN (recompute is on in that sweep), or five digits: the
/// first is overlap, the second recompute. Where the artifact's scripts label Mixtral-8x7B's
/// indices 1 and 2 otherwise, its own YAML files decide. Source: CharLLM-PPT, scripts/experiments
/// and scripts/visualization/figure_8.py.
std::optional<ArtifactName> parse_artifact_name(std::string_view text, int64_t devices);

/// The artifact's scripts take this batch for every run.
inline constexpr double artifact_batch = 128;

/// What the figures of the paper draw of one run, wherever it comes from.
struct PaperJob {
  std::string model, machine;   // "gpt3-175b", "32 x H200"
  std::string layout, variant;  // "TP8-PP4"; "base", "recompute"; a run without a job: its name
  int64_t microbatch = 1, pipeline = 1;
  bool fits_memory = true;
  int64_t gpus_per_node = 8;
  metrics::Metrics metrics;
  // Of each pipeline stage, mean over its ranks that are seen, one step; classified as the paper's
  // artifact does.
  std::map<int32_t, metrics::KernelSeconds> kernels;
  std::optional<double> efficiency;  // samples/(s MJ)
};
PaperJob paper_job(const run::Run&, metrics::Metrics, const std::string& name);

/// The numbers of the figures that can be drawn.
std::vector<int64_t> paper_figure_numbers();

/// A figure of "Characterizing the Efficiency of Distributed Training: A Power, Performance, and
/// Thermal Perspective" (MICRO'25, arXiv 2509.10371) from other runs, as one SVG file:
///
///   3   kernel seconds of each pipeline stage, machine beside machine
///   4   temperature, power, clock and efficiency over layouts
///   5   bytes sent by each GPU, inside the node and beyond
///   8   as 4, with optimizations switched on
///   10  kernel seconds by class, base beside recompute
///   13  as 4, over microbatch sizes
///   15  as 3 for one machine, over microbatch sizes
///   17  temperature and throttling of each GPU
///
/// Of the jobs, those are drawn that the paper's figure is about (recompute in 4, 13 and 15; base
/// in 5 and 17; microbatch 1 but for sweeps; one machine but for 3: the one with most jobs); if
/// none is, all. An error says what is missing.
Result<std::string> paper_figure(int64_t number, const std::vector<PaperJob>& all);

using PaperJobs = std::vector<const PaperJob*>;

/// Jobs that share a heading: a model, or a machine and layout.
struct PaperGroup {
  std::string title;
  PaperJobs jobs;
  std::vector<std::string> labels;  // one per job
};

/// Three panels (temperature, power, clock), each with mean, peak and efficiency.
std::string panels_figure(const std::string& title, const std::vector<PaperGroup>& groups,
                          bool normalizes_efficiency);

/// A stack of kernel classes per label; groups that are many times higher get their own scale.
struct KernelStack {
  std::string label;
  std::optional<metrics::KernelSeconds> kernels;  // nothing: out of memory
};
struct KernelGroup {
  std::string heading;  // over neighbours that share it; may be empty
  std::string title;
  std::vector<KernelStack> stacks;
};
std::string stacks_figure(const std::string& title, const std::vector<KernelGroup>& groups);

/// GPUs from left to right, jobs from top to bottom.
struct PaperMap {
  std::string title, unit;
  std::vector<std::pair<std::string, std::vector<double>>> rows;
  bool adds_mean_row = false;
  bool is_logarithmic = false;  // powers of two
  int64_t per_node = 8;
};
std::string maps_figure(const std::string& title, const std::vector<PaperMap>& maps);

}  // namespace triplepoint::report
