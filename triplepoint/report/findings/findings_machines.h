// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// The job that stands for its group.
using ChooseJob = const StudyRow* (*)(const std::vector<const StudyRow*>&);
const StudyRow* fastest_job(const std::vector<const StudyRow*>& rows);
/// The job with the least joules per token; the fastest where no job knows its energy.
const StudyRow* least_energy_job(const std::vector<const StudyRow*>& rows);

/// One model on two or more kinds of machines, each as the chosen job there.
struct MachineComparison {
  std::string model;
  std::vector<const StudyRow*> entries;
};
std::vector<MachineComparison> machine_comparisons(const std::vector<Group>& groups,
                                                   ChooseJob choose);

/// What one gets for equal means.
struct Basis {
  std::string id, name, unit, job;  // the last: the chosen job in words
  ChooseJob choose = nullptr;
  double (*value)(const StudyRow&) = nullptr;  // not-a-number if not known
};
/// Equal GPUs, equal memory, equal watts.
std::vector<Basis> bases();

/// One chart per basis; nothing without a comparison.
std::vector<Figure> machine_figures(const std::vector<Group>& groups);

}  // namespace triplepoint::report
