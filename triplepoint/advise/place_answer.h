// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/place.h"
#include "triplepoint/answers/document.h"

namespace triplepoint::advise {

/// What devices were grouped by, and how.
struct GroupedMachine {
  std::vector<ThermalSample> devices;
  ThermalGroups groups;
  std::string source;  // "simulated", or the files
};

/// What separates the GPUs, and the order that puts cold ones first.
answers::Document groups_answer(const GroupedMachine&, const std::vector<std::string>& notes = {});

/// Which stages on which slots, what each placement gains, and how to launch the best. `pictured`:
/// with the chassis before and after, for which both are simulated.
answers::Document place_answer(const spec::Job&, const GroupedMachine&, const PlaceResult&,
                               bool pictured);

}  // namespace triplepoint::advise
