// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/bench_play.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/run/shutdown.h"
#include "triplepoint/spec/job_checks.h"

#include "triplepoint/search/finalists.h"
#include "triplepoint/search/plan_tables.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::study {
namespace {

using metrics::JobResult;
using metrics::ScoreCard;
using metrics::ScoreValues;
using metrics::Suite;
using metrics::SuiteJob;

search::Layout layout_of(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return {.tensor = plan.tensor_parallel_size,
          .pipeline = plan.pipeline_parallel_size,
          .context = plan.context_parallel_size,
          .expert = plan.expert_parallel_size,
          .expert_tensor = plan.expert_tensor_size(),
          .chunks = plan.virtual_pipeline_size,
          .data = job.data_parallel_size(),
          .micro = plan.micro_batch_size};
}

/// One job of the suite on its way to a row of the card.
struct Played {
  const SuiteJob* wanted = nullptr;
  spec::Job job;
  std::string verdict;  // why it is not simulated; empty: it is
  std::vector<ScoreValues> values;
  std::vector<std::vector<std::string>> broken;
};

Result<void> take_plan(const spec::Library& library, const Path& file, spec::Job& job) {
  const spec::Job given = TPT_TRY(spec::load_job(library, file.string()));
  const int64_t batch = job.plan.global_batch_size;
  job.plan = given.plan;
  job.plan.global_batch_size = batch;
  job.stack = given.stack;
  job.environment = given.environment;
  if (auto valid = spec::require_valid(job); !valid)
    return error(fmt::format("{}: {}", file.string(), valid.error().what));
  return {};
}

/// The fastest plan, or why there is none.
std::string search_plan(spec::Job& job, int threads) {
  const search::Space space(job, search::Reach::launchable, {});
  if (space.size() == 0) return "invalid";
  search::FinalOptions options;
  options.top = 1;
  options.search.threads = threads;
  options.search.keep = 6;
  options.search.stopped = [] { return interrupted(); };
  const search::Ranking ranking = search::rank_plans(space, {}, {}, options);
  if (ranking.ranked.empty()) return "oom";
  job.plan = ranking.ranked.front().candidate.plan;
  return "";
}

Result<std::vector<Played>> choose_plans(tui::Console& console, const spec::Library& library,
                                         const Suite& suite, const spec::Cluster& cluster,
                                         const BenchOptions& options) {
  const spec::Stack stack = TPT_TRY(spec::load_stack(library, suite.stack));
  std::vector<Played> all;
  tui::Progress progress(console, "Choosing plans", suite.jobs.size());
  for (const SuiteJob& wanted : suite.jobs) {
    Played played;
    played.wanted = &wanted;
    played.job = metrics::job_for(wanted, cluster, stack);
    const Path file = options.plans.value_or(Path()) / (wanted.name + ".toml");
    std::error_code ignored;
    if (options.plans && std::filesystem::exists(file, ignored))
      TPT_TRY(take_plan(library, file, played.job));
    else
      played.verdict = search_plan(played.job, options.threads);
    if (interrupted()) return error("interrupted (no card was made); start it again");
    all.push_back(std::move(played));
    progress.advance();
  }
  return all;
}

void play_one(const Suite& suite, Played& played, std::size_t repeat) {
  if (interrupted() || !played.verdict.empty()) return;
  spec::Job job = played.job;
  job.environment.seed += repeat;
  // A step more than asked for, since only whole steps count.
  const run::Run steady = sim::simulate(job, {.duration = {}, .steps = 1, .timeline = false});
  if (!run::has_trained(steady)) return;
  const Seconds step = steady.steps.back().end - steady.steps.back().begin;
  const run::Run run = sim::simulate(
      job, {.duration = suite.warm_up + suite.duration + 2 * step, .steps = {}, .timeline = false});
  played.values[repeat] = metrics::measure_for_score(run, suite.warm_up);
  played.broken[repeat] = metrics::broken_rules(suite, *played.wanted, run);
}

JobResult row_of(const Played& played) {
  JobResult row = metrics::combine_repeats(*played.wanted, played.values);
  const bool nothing = !row.values[0];
  if (!played.verdict.empty() || nothing) {
    row = metrics::combine_repeats(*played.wanted, {});
    row.verdict = played.verdict.empty() ? "oom" : played.verdict;
    return row;
  }
  row.plan = search::plan_text(played.job.plan, layout_of(played.job));
  row.broken = played.broken.front();
  return row;
}

}  // namespace

Result<PlayedCard> play_suite(tui::Console& console, const spec::Library& library,
                              const Suite& suite, const spec::Cluster& cluster,
                              const BenchOptions& options) {
  std::vector<Played> all = TPT_TRY(choose_plans(console, library, suite, cluster, options));
  const auto repeats = static_cast<std::size_t>(suite.repeats);
  for (Played& played : all) {
    played.values.resize(repeats);
    played.broken.resize(repeats);
  }
  {
    tui::Progress progress(console, "Simulating", all.size() * repeats);
    parallel_for(all.size() * repeats, options.threads, [&](std::size_t i) {
      play_one(suite, all[i / repeats], i % repeats);
      progress.advance();
    });
  }
  if (interrupted()) return error("interrupted (no card was made); start it again");
  PlayedCard result;
  result.card.suite = suite.label();
  result.card.name = fmt::format("{} x {}", cluster.name, cluster.num_nodes);
  result.card.gpu = cluster.gpu.name;
  result.card.num_gpus = cluster.num_gpus();
  result.card.origin = "simulated";
  result.card.duration_s = suite.duration / unit::s;
  for (const Played& played : all) {
    result.card.jobs.push_back(row_of(played));
    if (result.card.jobs.back().verdict == "ok") {
      result.jobs[played.wanted->name] = played.job;
      result.jobs[played.wanted->name].name = played.wanted->name;
    }
  }
  return result;
}

}  // namespace triplepoint::study
