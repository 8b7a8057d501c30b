// SPDX-License-Identifier: Apache-2.0
// Changes that relations of several files make first, where their laws ask for it.
#pragma once

#include "triplepoint/spec/job.h"

namespace triplepoint::metamorphic {

inline bool is_legal(const spec::Job& job) {
  return !spec::has_errors(spec::diagnose(job));
}

/// Fans that follow the hottest device would cool all others for it.
inline bool full_fans(spec::Job& job) {
  job.cluster.chassis.fan_floor = 1;
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->fan_floor = 1;
  return true;
}

/// Every slot has its own air at full flow: no device warms or cools another.
inline bool own_air(spec::Job& job) {
  full_fans(job);
  for (spec::Slot& slot : job.cluster.chassis.slots)
    slot.upstream_heating.clear();
  if (job.cluster.liquid_chassis)
    for (spec::Slot& slot : job.cluster.liquid_chassis->slots)
      slot.upstream_heating.clear();
  return true;
}

inline bool equal_boards(spec::Job& job) {
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.chassis.inlet_spread = {};
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->inlet_spread = {};
  return true;
}

inline bool equal_boards_without_faults(spec::Job& job) {
  job.environment.faults.clear();
  return equal_boards(job);
}

/// The host launches in no time.
inline bool no_host(spec::Job& job) {
  job.stack.kernel_launch = job.stack.layer_forward_host = job.stack.layer_backward_host = {};
  job.stack.tensor_collective_host = job.stack.microbatch_gap = {};
  return true;
}

}  // namespace triplepoint::metamorphic
