// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// A card, and the plan of each of its jobs.
struct PlayedCard {
  metrics::ScoreCard card;
  std::map<std::string, spec::Job> jobs;  // by the suite's name
};

struct BenchOptions {
  int threads = 1;
  std::optional<Path> plans;  // folder of JOB.toml; what is not there is searched for
};

/// Simulates every job of the suite on a cluster: the plan is searched for (fastest at steady
/// state), then simulated from a cold machine, each repeat with other boards. A job that no plan
/// fits is a row that says so. Ctrl-C ends it with an error.
Result<PlayedCard> play_suite(tui::Console&, const spec::Library&, const metrics::Suite&,
                              const spec::Cluster&, const BenchOptions&);

/// A card of the .run files below a folder. A recording that does not know its job has it beside
/// it, NAME.toml beside NAME.run. What belongs to no job of the suite is said on standard error.
Result<metrics::ScoreCard> card_of_runs(tui::Console&, const spec::Library&, const metrics::Suite&,
                                        const std::string& folder);

}  // namespace triplepoint::study
