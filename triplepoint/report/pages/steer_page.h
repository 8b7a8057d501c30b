// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer_output.h"

namespace triplepoint::report {

/// The page of steered jobs: what each side reached, and step time, heat, clocks and power over
/// time with a mark at each move, and the reasons.
std::string steer_page(const spec::Job&, const std::vector<advise::SteeredScenario>&, search::Goal);

}  // namespace triplepoint::report
