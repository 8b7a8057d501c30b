// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer.h"

namespace triplepoint::report {

/// A disturbance with what came of it.
struct SteerStory {
  std::string name, about;
  const advise::SteerOutcome* outcome = nullptr;
};

/// The page of steered jobs: what each side reached, and step time, heat, clocks and power over
/// time with a mark at each move, and the reasons.
std::string steer_page(const spec::Job&, const std::vector<SteerStory>&, search::Goal);

}  // namespace triplepoint::report
