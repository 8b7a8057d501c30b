// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/search/plan_answer.h"
#include "triplepoint/search/plan_text.h"
#include "triplepoint/search/search.h"
#include "triplepoint/search/space.h"

namespace triplepoint::search {
namespace {

constexpr size_t fewest_finalists = 8;

/// Plans that are thrifty alone widen the front.
Found thrifty_plans(const Space& space, const PlanQuestion& asked, const SearchOptions& options) {
  if (!asked.pareto || asked.objective.goal == Goal::energy) return {};
  Objective thrifty = asked.objective;
  thrifty.goal = Goal::energy;
  return search(space, thrifty, asked.limits, options);
}

Result<Ranking> require_plans(Ranking ranking, const PlanQuestion& asked) {
  if (!ranking.ranked.empty() || asked.watch.stopped()) return ranking;
  if (!ranking.refused.empty()) {
    // Of one whose power limit was lowered, where that was tried.
    const auto nearest = std::max_element(
        ranking.refused.begin(), ranking.refused.end(), [](const Finalist& a, const Finalist& b) {
          return a.power_limit.has_value() < b.power_limit.has_value();
        });
    return error(
        fmt::format("none of the {} fastest plans keeps within the limits ({}, of {}); raise the "
                    "limit, search further (a higher --top than {}), or use more nodes",
                    ranking.refused.size(), nearest->refused, plan_text(*nearest), asked.top));
  }
  return error(
      fmt::format("none of {} plans fits in memory (states, activations and buffers of every one "
                  "are larger than a GPU's memory less a headroom of {} GiB); use more nodes, a "
                  "smaller batch, or less --memory-headroom",
                  ranking.counts.plans, significant(asked.limits.headroom / unit::GiB)));
}

}  // namespace

Result<Ranking> find_plans(const Space& space, const PlanQuestion& asked) {
  FinalOptions options;
  options.top = asked.top;
  options.kinds = asked.top > 1;
  options.search.threads = asked.threads;
  options.search.keep = std::max(fewest_finalists, asked.top + asked.top / 2);
  options.search.watch = asked.watch;
  return require_plans(rank_plans(space, asked.objective, asked.limits, options,
                                  thrifty_plans(space, asked, options.search).best),
                       asked);
}

}  // namespace triplepoint::search
