// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"

#include "triplepoint/advise/steer.h"

namespace triplepoint::advise {

/// A disturbance with what came of it.
struct SteeredScenario {
  std::string name, about;
  advise::SteerOutcome outcome;
};

/// One row per scenario: both sides, the gain, moves, and what was said.
DataTable scenarios_table(const std::vector<SteeredScenario>&, search::Goal, double margin);
Json decision_json(const advise::Decision&);
/// All scenarios of a job.
Json steering_json(const std::string& job, const std::vector<SteeredScenario>&,
                   const SteerOptions&);
/// "dynamic", "leave it (right)", "leave it (wrong)", "static": which side was right.
std::string verdict_of(const advise::SteerOutcome&, search::Goal, double margin);

}  // namespace triplepoint::advise
