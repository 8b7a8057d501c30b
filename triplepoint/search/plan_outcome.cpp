// SPDX-License-Identifier: Apache-2.0
// A search for plans, from question to outcome.
#include "triplepoint/search/plan_outcome.h"

#include <algorithm>

#include "triplepoint/base/text.h"

namespace triplepoint::search {

double PlanOutcome::slower(const Finalist& plan, const Finalist& than) const {
  if (own_runs.runs > 0) return own_runs.longer(plan, than);
  return intervals.probability_longer(plan.time, than.time);
}

std::optional<metrics::Interval> PlanOutcome::step_time(const Finalist& plan) const {
  if (own_runs.runs == 0) return intervals.step_time(job_of(asked.base, plan), plan.time);
  const double factor = own_runs.factor(plan);
  return metrics::Interval{plan.time / factor, plan.time * factor};
}

std::optional<OtherPlan> own_plan(const PlanQuestion& asked) {
  const spec::Plan& plan = asked.base.plan;
  const bool overlaps = plan.overlap_tensor || plan.overlap_gradient || plan.overlap_parameter ||
                        plan.overlap_pipeline || plan.overlap_expert;
  const bool is_told = overlaps || plan.model_parallel_size() > 1 ||
                       plan.expert_parallel_size > 1 || plan.micro_batch_size > 1 ||
                       plan.sharding == spec::Sharding::parameters ||
                       plan.recompute != spec::Recompute::none;
  if (!is_told || spec::has_errors(spec::diagnose(asked.base))) return std::nullopt;
  Limits limits = asked.limits;
  limits.headroom = {};  // it may use all of the memory
  return judged_plan(your_job, asked.base, asked.objective, limits);
}

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
    const auto nearest =
        std::ranges::max_element(ranking.refused, [](const Finalist& a, const Finalist& b) {
          return a.power_limit.has_value() < b.power_limit.has_value();
        });
    return error("none of the {} best plans keeps within the limits ({}, of {}); raise the limit{}",
                 ranking.refused.size(), nearest->refused, plan_text(*nearest),
                 ranking.refused.size() < most_finalists || nearest->power_limit
                     ? ""
                     : fmt::format(", or search further (a higher --top than {})", asked.top));
  }
  const bool has_headroom = asked.limits.headroom > Bytes();
  return error(
      "none of {} plans fits in memory (states, activations and buffers of every one are larger "
      "than a GPU's memory{}); use more nodes{}",
      ranking.counts.plans,
      has_headroom ? fmt::format(" less a headroom of {} GiB",
                                 significant(asked.limits.headroom / unit::GiB))
                   : "",
      has_headroom ? ", or less --memory-headroom where little is missing" : "");
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
