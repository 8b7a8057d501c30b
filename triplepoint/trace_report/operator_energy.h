// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::trace_report {

/// Whose time a kernel is.
struct KernelOwner {
  int32_t row = -1;  // number of the operator's row; -1: of no operator
  std::string kind;  // "matrix"
};

/// What kernels of one operator drew: J per ns of kernel time.
struct EnergyRate {
  std::optional<double> energy;  // 0: hidden behind other kernels
  double uncertainty = 0;
  bool is_own = false;  // else mostly that of its kind
  int32_t phase = -1;   // errors of one phase are alike, those of others not
};

struct OperatorEnergy {
  std::vector<EnergyRate> of_span;         // in the order of the timeline's spans
  std::map<std::string, double> kinds_j;   // "matrix", "idle", of all ranks
  std::map<int32_t, std::string> missing;  // rank -> why some of its energy is not known
  int64_t time = 0, sampled = 0;           // ns, of ranks; of it while power was recorded
};

/// Joins a recording with kernels (see cost_of_phases). The rows with most kernel time have a phase
/// each, the others one for each kind. The energy of an exclusive time (see phases_by_owner) is
/// divided among its kernels by their lengths.
OperatorEnergy energy_of_operators(const run::Timeline&, const run::Run& recording,
                                   const std::vector<KernelOwner>& of_span);

}  // namespace triplepoint::trace_report
