// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/power/power.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// What makes one board and one node different from its type, drawn with the job's seed.
///
/// Values are normal quantiles dealt out in a seeded order, so that a small cluster shows its
/// spread and not the luck of a few draws: z_i = Phi^-1((i + 1/2) / n), i a permutation of the n
/// boards (nodes).
struct HardwareVariation {
  std::vector<power::BoardFactors> boards;  // per device
  std::vector<double> thermal_resistance;   // per device, factor
  std::vector<double> host_factor;          // per node: host time over the mean
  std::vector<Celsius> inlet;               // per node
};
HardwareVariation draw_hardware_variation(const spec::Job&);

/// Ranks of one pipeline stage that meet inside every microbatch (tensor, context, expert groups,
/// FSDP): they move in lockstep, the slowest clock wins.
struct LockstepGroup {
  int64_t stage = 0;
  std::vector<int64_t> ranks;
  std::vector<int64_t> devices;  // of those ranks
  double host_factor = 1;        // of the slowest node
  size_t links = 0;              // which shares of the links' bandwidth it has (StepModel)
};

/// One pipeline: a lockstep group per stage. Pipelines meet only at the end of a step.
struct Pipeline {
  std::vector<LockstepGroup> groups;
};
/// The pipeline whose first data-parallel index is `first_data`; of the machine it reads host
/// factors.
Pipeline form_pipeline(const spec::Job&, const workload::WorkGraph&, const HardwareVariation&,
                       int64_t first_data);
std::vector<Pipeline> form_pipelines(const spec::Job&, const workload::WorkGraph&,
                                     const HardwareVariation&);

}  // namespace triplepoint::sim
