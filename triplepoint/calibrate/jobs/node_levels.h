// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::calibrate {

/// How a run's steps follow each other.
struct NodePace {
  Seconds step, host;  // host: the pause of it, in which devices rest
  double batch = 1;    // sequences of a step
};

/// What one node draws, by where it is measured.
struct NodeLevels {
  struct Side {
    Watts busy, idle;
  };
  Side wall, supplied;  // before and behind the power supplies
  NodePace pace;
};

/// Simulates a job to its steady state and adds what a node is besides its devices. Errors: a GPU
/// without a model of power and heat, a job that does not fit in memory.
Result<NodeLevels> node_levels(const spec::Job&);

}  // namespace triplepoint::calibrate
