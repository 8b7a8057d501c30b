// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

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

}  // namespace triplepoint::report
