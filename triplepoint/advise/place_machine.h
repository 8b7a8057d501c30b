// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/thermal_groups.h"

namespace triplepoint::advise {

/// K/W between a die and its coolant by the GPU's ladder; what temperatures are put to equal load
/// with. Nothing for a GPU without a ladder.
std::optional<double> kelvin_per_watt(const spec::Gpu&);

struct MatchedMachine {
  spec::Job job;
  double before_k = 0, after_k = 0;  // rms of simulated less measured temperatures
};

/// The job on a machine whose devices are as hot as they were measured.
///
/// The coolest node of each slot gives its inlet offset, the rest is each device's heat path (a
/// fault of kind heat_path). Where powers were measured, temperatures are moved to the simulated
/// power with kelvin_per_watt() first. Eight rounds of simulating and correcting; samples of one
/// node stand for every node. Holds while slots keep their order from load to load.
MatchedMachine match_machine(const spec::Job&, const std::vector<ThermalSample>& devices);

}  // namespace triplepoint::advise
