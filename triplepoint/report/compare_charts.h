// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/report/compare.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// One lying bar to the left (less) or right (more) of a middle line.
struct DifferenceBar {
  std::string label;
  double relative = 0;  // of the base
  std::string text;     // at its end
  int judgement = 0;    // 1: good news, -1: bad, 0: neither
  bool begins_group = false;
};
/// Bars beyond 100 % are cut at the edge; their text says how long they are.
std::string difference_svg(const std::string& title, const std::vector<DifferenceBar>& bars);
std::vector<LegendEntry> difference_legend();

/// What changed most visibly: one bar per number that matters and side.
Figure headline_figure(const Comparison&);
/// Kernel seconds by class: a bar per side; and one per stage and side.
Figure kernels_figure(const Comparison&);
Figure stages_figure(const Comparison&);
/// GPUs from left to right, a row per side.
std::vector<Figure> gpu_figures(const Comparison&);
/// Length of every step.
Figure steps_figure(const Comparison&);
/// Where the energy of a step went, a bar per side.
Figure ledger_figure(const Comparison&);

/// Step time of each job against the first study, sorted.
Figure jobs_figure(const StudyComparison&, std::size_t side);

}  // namespace triplepoint::report
