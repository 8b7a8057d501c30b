// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triplepoint/report/paper_figures.h"
#include "triplepoint/report/svg_sheet.h"

// The pieces that paper_figures.cpp puts together; nobody else includes this.
namespace triplepoint::report {

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

/// A stack of kernel classes per label; groups that are many times higher get a scale of their own.
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
