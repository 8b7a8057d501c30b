// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/suite.h"

#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/search/finalists.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/store/store.h"

namespace triplepoint::app {
namespace {

/// "NAME", or "NAME:4" with 4 nodes.
Result<spec::Cluster> read_counted_cluster(const spec::Library& library, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, text.substr(0, colon)));
  cluster.num_nodes = 1;
  if (colon != std::string::npos) cluster.num_nodes = TPT_TRY(parse_count(text.substr(colon + 1)));
  if (cluster.num_nodes >= 1) return cluster;
  return error("--cluster {} has no nodes (there would be no cluster); write NAME:4", text);
}

/// The suite's job on another cluster.
spec::Job job_on(const spec::Job& wanted, const spec::Cluster& cluster) {
  spec::Job job = wanted;
  job.plan.global_batch_size = metrics::batch_on(wanted, cluster);
  if (cluster.num_gpus() == 1) job.plan.sharding = spec::Sharding::none;
  job.cluster = cluster;
  return job;
}

/// Gives the job the fastest plan. Where none is legal or fits, its plan stays: diagnoses or the
/// simulation then say why.
void choose_plan(spec::Job& job, int threads, const Watch& watch) {
  const search::Space space(job, search::Reach::launchable, {});
  if (space.size() == 0) return;
  search::FinalOptions options;
  options.top = 1;
  options.search.threads = threads;
  options.search.keep = 6;
  options.search.watch.stopped = watch.stopped;
  const search::Ranking ranking = search::rank_plans(space, {}, {}, options);
  if (!ranking.ranked.empty()) job.plan = ranking.ranked.front().candidate.plan;
}

/// Rows are named "dense-small-1", or beside others "dense-small.hgx-h200-x-4-1".
void add_simulated(const Watch& watch, const std::vector<spec::Cluster>& clusters, int threads,
                   spec::StudyPlan& plan) {
  watch.begin("Choosing plans", clusters.size() * plan.suite->jobs.size());
  const bool alone = clusters.size() == 1 && plan.jobs.empty();
  for (const spec::Cluster& cluster : clusters)
    for (const auto& [wanted, diagnoses] : plan.suite->jobs) {
      spec::Job job = job_on(wanted, cluster);
      choose_plan(job, threads, watch);
      if (!alone)
        job.name += fmt::format(".{}-x-{}", Path(cluster.name).stem().string(), cluster.num_nodes);
      for (int64_t repeat = 1; repeat <= plan.suite->score->repeats; ++repeat) {
        plan.jobs.push_back({job, spec::diagnose(job)});
        plan.jobs.back().job.name += fmt::format("-{}", repeat);
        ++job.environment.seed;
      }
      watch.advance();
    }
}

/// Notes where each run of the folder lies, by the name of its row.
Result<void> add_runs(const Watch& watch, const std::string& folder, spec::StudyPlan& plan,
                      std::map<std::string, Path>& files) {
  for (const Path& file : TPT_TRY(list_files(folder, ".run"))) {
    const run::Run run = TPT_TRY(run::load(file.string()));
    std::string name = file.stem().string();
    if (!run.manifest.job || metrics::meant_job(*plan.suite, name) == nullptr) {
      watch.say(fmt::format("{} is left out: {}", file.string(),
                            run.manifest.job ? "its name is that of no job of the suite"
                                             : "it does not know its job (record it with --job)"));
      continue;
    }
    files[name] = file;
    plan.jobs.push_back({*run.manifest.job, {}});
    plan.jobs.back().job.name = std::move(name);
  }
  if (!files.empty()) return {};
  return error(
      "{}: no .run file of a job of the suite below it (they are what is scored); record "
      "or simulate into it, with names as in {}-1.run",
      folder, plan.suite->jobs.front().job.name);
}

Result<void> require_different_names(const spec::StudyPlan& plan) {
  std::set<std::string> names;
  for (const auto& [job, diagnoses] : plan.jobs)
    if (!names.insert(job.name).second)
      return error(
          "two runs are named {} (their files would overwrite each other); name "
          "each cluster once, or rename a file of --runs",
          job.name);
  return {};
}

run::Run simulate_for_score(const spec::Job& job, const spec::ScoreRules& rules) {
  // A step more than asked for, since only whole steps count.
  run::Run steady = sim::simulate(job, {.steps = 1, .timeline = false});
  if (!run::has_trained(steady)) return steady;
  const Seconds step = steady.steps.back().end - steady.steps.back().begin;
  return sim::simulate(job,
                       {.duration = rules.warm_up + rules.duration + 2 * step, .timeline = false});
}

}  // namespace

Result<StudyResults> run_suite(const Watch& watch, const spec::Library& library,
                               const spec::StudyPlan& suite, const SuiteMachines& machines,
                               const Path& folder, int threads) {
  spec::StudyPlan plan = suite;
  plan.suite = std::make_shared<spec::StudyPlan>(suite);
  plan.jobs.clear();
  std::map<std::string, Path> files;
  for (const std::string& runs : machines.runs)
    TPT_TRY(add_runs(watch, runs, plan, files));
  std::vector<spec::Cluster> clusters;
  for (const std::string& text : machines.clusters)
    clusters.push_back(TPT_TRY(read_counted_cluster(library, text)));
  if (files.empty() && clusters.empty()) clusters.push_back(suite.jobs.front().job.cluster);
  add_simulated(watch, clusters, threads, plan);
  TPT_TRY(require_different_names(plan));
  std::string digest = program_digest(library);
  std::error_code ignored;
  for (const auto& [name, file] : files)
    digest +=
        fmt::format("{} {}", file.string(),
                    std::filesystem::last_write_time(file, ignored).time_since_epoch().count());
  watch.begin("Simulating", plan.jobs.size());
  return run_study(plan, folder, threads,
                   {.simulate =
                        [&](const spec::Job& job) {
                          const auto file = files.find(job.name);
                          if (file == files.end()) return simulate_for_score(job, *suite.score);
                          // It could be read before; one that is gone since holds nothing.
                          return run::load(file->second.string()).value_or(run::Run());
                        },
                    .watch = watch,
                    .program_digest = digest});
}

}  // namespace triplepoint::app
