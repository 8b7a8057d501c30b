// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/neighbours.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/search/search_parts.h"
#include "triplepoint/search/worker_pool.h"
#include "triplepoint/study/plan_search.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {

/// `plan`, searched by several processes together; the first of them prints and writes.
std::unique_ptr<Command> make_plan_in_pool(const search::WorkerPool& pool);

/// Under mpirun `triplepoint plan ...` becomes triplepoint-search, which lies beside this program
/// and links MPI. Does nothing where one process was started, or where another command was. Returns
/// the error if the program cannot be started.
Result<void> become_distributed_search();

/// What `plan --clocks` was asked.
struct ClockRequest {
  double slowdown = 0;  // the point that is written may be so much slower
  std::string format = "table";
  std::optional<std::string> output;  // folder
  int threads = 1;
};

/// "2%" or "0.02".
Result<double> parse_slowdown(std::string_view text);

/// Clocks and power caps of each device of a job, from no slowdown on: the frontier, the stages
/// with their slack, and, in a folder, what an operator needs to set them.
Result<int> plan_the_clocks(tui::Console& console, const spec::Library& library,
                            const spec::Job& job, const ClockRequest& request);

/// What is searched for: the goal, the limits, the space, and the part of the space.
class SearchFlags {
 public:
  Arguments arguments();
  /// The flags that spread a search over processes which do not know each other.
  Arguments spread_arguments();
  Result<void> check_spread(bool has_output, bool has_pool) const;

  Result<search::Space> space(const spec::Job& base) const;
  search::Objective objective(const spec::Job& base, const metrics::BillRates&) const;
  search::Limits limits(const spec::Job& base) const;
  const std::string& fixed() const { return fix_; }
  const std::optional<search::Shard>& shard() const { return shard_; }
  const std::optional<std::string>& merge() const { return merge_; }

 private:
  std::string goal_ = "throughput", reach_ = "launchable", fix_;
  search::Limits limits_;
  search::Headroom headroom_;
  std::optional<search::Shard> shard_;
  std::optional<std::string> merge_;  // folder
};

/// What a search found, and what belongs to it.
struct PlanOutcome {
  const study::PlanQuestion& asked;
  const search::Space& space;
  const search::Ranking& ranking;
  const metrics::BillRates& rates;
  const metrics::PredictionIntervals& intervals;
  const BillFlags& bill;
  std::optional<search::OtherPlan> own;  // the job file's own layout
};

/// The layout that the job has itself, if it has one that can run.
std::optional<search::OtherPlan> own_plan(const study::PlanQuestion&);

/// How the ranking came about: counts, interval, what was refused, what memory costs, the bill.
std::vector<std::string> plan_sentences(const PlanOutcome& outcome);
/// The page of all plans, into this file.
Result<void> write_plan_page(const Path& file, const PlanOutcome& outcome,
                             const std::vector<std::string>& sentences);

/// Prints the ranking, below it the sentences and the front; `explain`: two plans beside each
/// other.
Result<void> print_outcome(tui::Console& console, const spec::Library& library,
                           const PlanOutcome& outcome, const std::vector<std::string>& sentences,
                           const FormatFlag& format, const std::optional<std::string>& explain);

}  // namespace triplepoint::cli
