// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/advise/place_tables.h"

namespace triplepoint::report {

/// A placement as the chassis has it: its run, and what is said of each device.
struct PlacedRun {
  run::Run run;
  std::vector<std::string> stage_of_device;  // "stage 3"
};

/// The page of `triplepoint place`: stages on their slots before and after, where the difference
/// comes from, and what of it another machine would have.
std::string place_page(const std::string& title, const advise::GroupedMachine& seen,
                       const advise::PlaceResult& result, const PlacedRun& before,
                       const PlacedRun& after);

}  // namespace triplepoint::report
