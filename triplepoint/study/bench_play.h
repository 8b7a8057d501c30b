// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/study/bench_cards.h"

namespace triplepoint::study {

struct BenchRequest {
  std::vector<std::string> files;     // cards to compare
  std::vector<std::string> clusters;  // to simulate: "NAME", or "NAME:4" with 4 nodes
  std::vector<std::string> runs;      // folders of .run files
  std::optional<std::string> plans;   // folder of JOB.toml; what is not there is searched for
  std::optional<std::string> names, reference;
  std::optional<std::string> output;      // gets the plans of each card's jobs, as CARD/JOB.toml
  std::optional<int64_t> nodes, repeats;  // of clusters without a number; instead of the suite's
  std::optional<Seconds> duration;        // instead of the suite's
  int threads = 1;
};

/// Simulates every job of the suite on the clusters: the plan is searched for (fastest at steady
/// state), then simulated from a cold machine, each repeat with other boards. A job that no plan
/// fits is a row that says so. Ctrl-C ends it with an error.
Result<Scoring> run_bench(tui::Console&, const spec::Library&, const std::string& suite,
                          const BenchRequest&);
/// Cards of one suite that were made before.
Result<Scoring> compare_cards(const spec::Library&, const BenchRequest&);

/// A card of the .run files below a folder. A recording that does not know its job has it beside
/// it, NAME.toml beside NAME.run. What belongs to no job of the suite is said on standard error.
Result<metrics::ScoreCard> card_of_runs(tui::Console&, const spec::Library&, const metrics::Suite&,
                                        const std::string& folder);

}  // namespace triplepoint::study
