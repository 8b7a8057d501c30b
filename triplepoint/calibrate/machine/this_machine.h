// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/stack.h"

namespace triplepoint::calibrate {

/// How far the fit is from one class of rows.
struct MachineError {
  std::string rows_of;
  int64_t rows = 0;
  double median_pct = 0, worst_pct = 0;
};

struct MachineFit {
  std::string processor;
  spec::Cluster cluster;  // with a rank's part of the cores as its device
  spec::Stack stack;
  std::vector<MachineError> errors;
};

/// Describes the machine that triplepoint-machine has measured as a node of `ranks` processes;
/// json: what it printed.
///
///   products    t = flops / (peak share) (k + k0)/k: share and k0 by least squares of log t
///   attention   the shares, the key length and the head dimension of perf/kernel_time.h
///   links       launch and latency from the smallest messages, bandwidth from those that fill a
///               pipe; all of it is time on cores (copies)
///   steps       the rate of everything that streams, how much slower a product is within a step,
///               and what a step costs besides: on one-rank steps of the tiny models
///
/// All seconds are a core's; where there are more ranks than cores, a device is an equal part of
/// them. Peak is the fastest product that was seen. Least squares of logarithms; nothing is fitted
/// per configuration of ranks. Errors: rows that are missing or make no sense.
Result<MachineFit> fit_machine(const Json& json, int64_t ranks, const spec::Library& library);

/// Whole files: a cluster that says everything itself, and the stack.
std::string cluster_toml(const MachineFit&);
std::string stack_toml(const MachineFit&);

}  // namespace triplepoint::calibrate
