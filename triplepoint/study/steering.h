// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer_output.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// Simulates the job through the scenario of this name, through "all", or through its own faults,
/// each left alone and steered, until Ctrl-C.
Result<std::vector<advise::SteeredScenario>> steer_scenarios(tui::Console&, const spec::Job&,
                                                             const std::optional<std::string>& name,
                                                             const advise::SteerOptions&);

struct WatchOptions {
  std::string run;               // NAME.run, growing or finished
  std::optional<spec::Job> job;  // where the run does not know it
  std::optional<std::string> hook;
  Seconds hook_timeout = 30 * unit::s;
  Seconds warm_up = 60 * unit::s;  // of the run, before its baseline
  bool json = false;               // a line of JSON per decision
  advise::SteerOptions steer;
};

/// Looks at a run window by window: what is there at once, what comes as it comes, until the
/// recording ends or Ctrl-C. Prints advice; acts only through the hook.
Result<void> watch_run(tui::Console&, const WatchOptions&);

}  // namespace triplepoint::study
