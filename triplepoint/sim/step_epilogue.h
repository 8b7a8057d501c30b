// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/sim/phase_table.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// Ops of a step's end with their times.
struct EpilogueEstimate {
  std::vector<OpEstimate> gradient_sync, gradient_norm, optimizer, parameter_sync;
  bool waits_for_replicas = false;  // some gradient op spans the pipelines
};

/// The end of a step on one stage, as spans of time.
struct StepEpilogue {
  Seconds finish;      // last action, sends included
  Seconds sync_begin;  // the data-parallel group is complete
  Seconds sync_end;
  Seconds norm_begin;  // the model group is complete
  Seconds norm_end, optimizer_end, end;
};

/// Estimates of what a stage does once a step.
EpilogueEstimate estimate_epilogue(const spec::Job&, const workload::WorkGraph&,
                                   const workload::StepWork&);

/// What shows of ops of which some hide behind `cover`, where `oversubscription` ranks want each
/// core:
///   sum of those that do not hide + max(0, sum of those that do - cover)
/// Kernels and copies take as many times longer, what goes over the fabric does not.
Seconds exposed_time(const std::vector<OpEstimate>&, Seconds cover, double oversubscription = 1);
Seconds total_time(const std::vector<OpEstimate>&);

}  // namespace triplepoint::sim
