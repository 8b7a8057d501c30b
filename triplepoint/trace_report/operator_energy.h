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

/// What kernels of one operator, or of one kind, drew: J per ns of kernel time.
struct EnergyRate {
  std::optional<double> energy;  // 0: hidden behind other kernels
  double uncertainty = 0;
  bool is_own = false;  // measured of the operator, not of its kind
};

struct OperatorEnergy {
  std::vector<EnergyRate> of_span;        // in the order of the timeline's spans
  std::map<std::string, double> kinds_j;  // "matrix", "idle": what the sensors tell, all ranks
  std::string missing;                    // why of some phase nothing is known; empty: of all
};

/// Joins a recording with kernels (see cost_of_phases), twice: by kind, and with the rows that took
/// most time on their own, as many as a sensor may tell apart.
///
/// A row has its own power where that differs from its kind's by two standard deviations, or where
/// the kind's is not known; else it has that of its kind. The energy of an exclusive time (see
/// phases_by_owner) is divided among the kernels by their lengths.
OperatorEnergy energy_of_operators(const run::Timeline&, const run::Run& recording,
                                   const std::vector<KernelOwner>& of_span);

}  // namespace triplepoint::trace_report
