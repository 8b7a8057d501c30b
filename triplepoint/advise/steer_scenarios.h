// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::advise {

/// A disturbance to be steered through.
struct Scenario {
  std::string name, about;
  std::vector<spec::Fault> faults;
};

/// heat-wave, dead-fan, power-cap, degraded-cooling, slow-node, flapping-link, noisy-host: what
/// happens to a job within `duration`. They begin after a sixth of it; heat wave and power cap end
/// after two thirds. Those of one node hit the second one, where there is one.
std::vector<Scenario> scenarios_for(const spec::Job&, Seconds duration);
Result<Scenario> scenario_named(const spec::Job&, Seconds duration, std::string_view name);
std::vector<std::string> scenario_names();

/// What a diagnosis at this moment can know: the faults that are on, as if they would stay. What is
/// yet to come is not known, nor when something ends. Links that flap are known to.
spec::Job known_at(const spec::Job&, Seconds now);

}  // namespace triplepoint::advise
