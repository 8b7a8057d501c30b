// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/plan_search.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/search/plan_text.h"

namespace triplepoint::study {
namespace {

using search::Finalist;

constexpr size_t fewest_finalists = 8;

/// Plans that are thrifty alone widen the front.
search::Found thrifty_plans(const search::Space& space, const PlanQuestion& asked,
                            const search::SearchOptions& options) {
  if (!asked.pareto || asked.objective.goal == search::Goal::energy) return {};
  search::Objective thrifty = asked.objective;
  thrifty.goal = search::Goal::energy;
  return search::search(space, thrifty, asked.limits, options);
}

Result<search::Ranking> require_plans(search::Ranking ranking, const PlanQuestion& asked) {
  if (!ranking.ranked.empty() || asked.watch.stopped()) return ranking;
  if (!ranking.refused.empty()) {
    // Of one whose power limit was lowered, where that was tried.
    const auto nearest = std::max_element(
        ranking.refused.begin(), ranking.refused.end(), [](const Finalist& a, const Finalist& b) {
          return a.power_limit.has_value() < b.power_limit.has_value();
        });
    return error(fmt::format(
        "none of the {} fastest plans keeps within the limits ({}, of {}); raise the "
        "limit, search further (a higher --top than {}), or use more nodes",
        ranking.refused.size(), nearest->refused, search::plan_text(*nearest), asked.top));
  }
  return error(
      fmt::format("none of {} plans fits in memory (states, activations and buffers of every one "
                  "are larger than a GPU's memory less a headroom of {} GiB); use more nodes, a "
                  "smaller batch, or less --memory-headroom",
                  ranking.counts.plans, significant(asked.limits.headroom / unit::GiB)));
}

Result<Finalist> named_plan(const spec::Library& library, const PlanQuestion& asked,
                            const search::Ranking& ranking, const std::string& name) {
  const auto& ranked = ranking.ranked;
  if (const Result<int64_t> place = parse_count(name)) {
    if (*place >= 1 && *place <= static_cast<int64_t>(ranked.size()))
      return ranked[static_cast<size_t>(*place) - 1];
    return error(
        fmt::format("--explain: there is no plan {} (the ranking has {}); name one of "
                    "them, or a job file",
                    name, ranked.size()));
  }
  spec::Job job = asked.base;
  spec::StatedJob stated = TPT_TRY(formats::read_stated_job(library, name, {}));
  stated.job.cluster = asked.base.cluster;
  job.plan = TPT_TRY(spec::with_defaults(library, std::move(stated))).plan;
  job.plan.global_batch_size = asked.base.plan.global_batch_size;
  TPT_TRY(spec::require_valid(job));
  Finalist plan = search::simulate_in_full(job, asked.objective);
  if (plan.time == 0)
    return error(
        fmt::format("--explain: the plan of {} does not fit in memory (it has no step "
                    "to compare); save more, or use more nodes",
                    name));
  return plan;
}

}  // namespace

Result<search::Ranking> find_plans(const search::Space& space, const PlanQuestion& asked) {
  search::FinalOptions options;
  options.top = asked.top;
  options.kinds = asked.top > 1;
  options.search.threads = asked.threads;
  options.search.keep = std::max(fewest_finalists, asked.top + asked.top / 2);
  options.search.watch = asked.watch;
  return require_plans(search::rank_plans(space, asked.objective, asked.limits, options,
                                          thrifty_plans(space, asked, options.search).best),
                       asked);
}

Result<std::pair<Finalist, Finalist>> explained_plans(const spec::Library& library,
                                                      const PlanQuestion& asked,
                                                      const search::Ranking& ranking,
                                                      const std::string& text) {
  const std::vector<std::string> names = TPT_TRY(split_list(text));
  if (names.size() != 2)
    return error("--explain compares two plans (it was given another number); try --explain 1,2");
  Finalist a = TPT_TRY(named_plan(library, asked, ranking, names[0]));
  Finalist b = TPT_TRY(named_plan(library, asked, ranking, names[1]));
  return std::pair(std::move(a), std::move(b));
}

Result<std::string> write_plans(const spec::Library& library, const PlanQuestion& asked,
                                const search::Ranking& ranking, const Path& folder) {
  TPT_TRY(make_folder(folder));
  const size_t count = std::min(ranking.ranked.size(), asked.top);
  std::string remarks;
  for (size_t i = 0; i < count; ++i) {
    spec::Job job = search::job_of(asked.base, ranking.ranked[i]);
    job.name = answers::default_name(job);
    remarks += TPT_TRY(formats::write_job_files(library, job, folder / std::to_string(i + 1)));
  }
  if (const Path more = folder / fmt::format("{}-job.toml", count + 1); path_exists(more))
    remarks += fmt::format("plans from {} on are of an earlier search; remove their files\n",
                           more.string());
  return fmt::format("{} plan{} as job.toml, megatron.sh and nemo.yaml in {}\n{}", count,
                     count == 1 ? "" : "s", folder.string(), remarks);
}

}  // namespace triplepoint::study
