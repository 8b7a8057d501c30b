// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/plan_search.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::app {
namespace {

using search::Finalist;

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

}  // namespace triplepoint::app
