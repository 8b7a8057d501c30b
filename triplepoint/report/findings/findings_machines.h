// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// One model on two or more kinds of machines, each as the fastest job there.
struct MachineComparison {
  std::string model;
  std::vector<const StudyRow*> entries;
};
std::vector<MachineComparison> machine_comparisons(const std::vector<Group>& groups);

/// What one gets for equal means.
struct Basis {
  std::string id, name, unit;
  double (*value)(const StudyRow&);  // not-a-number if not known
};
/// Equal GPUs, equal memory, equal watts.
std::vector<Basis> bases();

/// One chart per basis; nothing without a comparison.
std::vector<Figure> machine_figures(const std::vector<Group>& groups);

}  // namespace triplepoint::report
