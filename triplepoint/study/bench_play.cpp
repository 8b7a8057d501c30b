// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/bench_play.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/process.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"
#include "triplepoint/run/store.h"
#include "triplepoint/spec/job.h"

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
                                         const BenchRequest& options) {
  const spec::Stack stack = TPT_TRY(spec::load_stack(library, suite.stack));
  std::vector<Played> all;
  tui::Progress progress(console, "Choosing plans", suite.jobs.size());
  for (const SuiteJob& wanted : suite.jobs) {
    Played played;
    played.wanted = &wanted;
    played.job = metrics::job_for(wanted, cluster, stack);
    const Path file = Path(options.plans.value_or("")) / (wanted.name + ".toml");
    if (options.plans && path_exists(file))
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

Result<ScoreCard> play_suite(tui::Console& console, const spec::Library& library,
                             const Suite& suite, const spec::Cluster& cluster,
                             const BenchRequest& options) {
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
  ScoreCard card;
  card.suite = suite.label();
  card.name = fmt::format("{} x {}", cluster.name, cluster.num_nodes);
  card.gpu = cluster.gpu.name;
  card.num_gpus = cluster.num_gpus();
  card.origin = "simulated";
  card.duration_s = suite.duration / unit::s;
  const Path folder = Path(options.output.value_or("")) / file_stem(card.name);
  if (options.output) TPT_TRY(make_folder(folder));
  for (Played& played : all) {
    card.jobs.push_back(row_of(played));
    if (!options.output || card.jobs.back().verdict != "ok") continue;
    played.job.name = played.wanted->name;
    TPT_TRY(write_file_atomically(folder / (played.job.name + ".toml"),
                                  spec::write_job(played.job, library)));
  }
  return card;
}

/// "NAME" with `nodes` nodes, or "NAME:4".
Result<spec::Cluster> read_counted_cluster(const spec::Library& library, const std::string& text,
                                           int64_t nodes) {
  const std::size_t colon = text.rfind(':');
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, text.substr(0, colon)));
  cluster.num_nodes = nodes;
  if (colon != std::string::npos) cluster.num_nodes = TPT_TRY(parse_count(text.substr(colon + 1)));
  if (cluster.num_nodes >= 1) return cluster;
  return error(
      fmt::format("--cluster {} has no nodes (there would be no cluster); write "
                  "NAME:4",
                  text));
}

/// Rules that less time or fewer repeats than the suite's break.
void mark_shortened(ScoreCard& card, const Suite& used, const Suite& published) {
  for (JobResult& job : card.jobs) {
    if (job.verdict != "ok") continue;
    if (used.duration < published.duration)
      job.broken.push_back(fmt::format("{:.0f} s were asked for, not {:.0f} s",
                                       used.duration / unit::s, published.duration / unit::s));
    if (used.repeats < published.repeats)
      job.broken.push_back(
          fmt::format("{} repeats were asked for, not {}", used.repeats, published.repeats));
  }
}

Result<std::vector<std::string>> card_names(const BenchRequest& request, std::size_t cards) {
  std::vector<std::string> names = TPT_TRY(split_list(*request.names));
  if (names.size() == cards) return names;
  return error(
      fmt::format("--names has {} names for {} cards (each is called something); give "
                  "one for each",
                  names.size(), cards));
}

Result<void> check_request(const BenchRequest& request) {
  if (!request.files.empty())
    return error(
        fmt::format("unexpected argument {} (only compare takes cards); for runs say "
                    "--runs {}",
                    request.files[0], request.files[0]));
  if (request.clusters.empty() && request.runs.empty())
    return error(
        "no cluster was named (a card is of one); try --cluster hgx-h200 --nodes 4, or "
        "--runs DIR");
  if (request.plans && !is_folder(*request.plans))
    return error(
        fmt::format("--plans {} is no folder (JOB.toml files are looked for in it); "
                    "check the path, or leave it out and plans are searched for",
                    *request.plans));
  if (request.reference) TPT_TRY(read_card(*request.reference));
  if (request.names) TPT_TRY(card_names(request, request.runs.size() + request.clusters.size()));
  if (request.output) TPT_TRY(make_folder(*request.output));
  return {};
}

Result<Scoring> finish(const spec::Library& library, const Suite& suite,
                       std::vector<ScoreCard> cards, const BenchRequest& request) {
  const auto names =
      request.names ? TPT_TRY(card_names(request, cards.size())) : std::vector<std::string>();
  for (std::size_t i = 0; i < names.size(); ++i)
    cards[i].name = names[i];
  return score_cards(library, suite, std::move(cards), request.reference);
}

}  // namespace

Result<Scoring> run_bench(tui::Console& console, const spec::Library& library,
                          const std::string& name, const BenchRequest& request) {
  TPT_TRY(check_request(request));
  const Suite published = TPT_TRY(metrics::load_suite(library, name));
  Suite suite = published;
  suite.duration = request.duration.value_or(suite.duration);
  suite.repeats = request.repeats.value_or(suite.repeats);
  std::vector<ScoreCard> cards;
  for (const std::string& folder : request.runs)
    cards.push_back(TPT_TRY(card_of_runs(console, library, suite, folder)));
  for (const std::string& text : request.clusters) {
    const spec::Cluster cluster =
        TPT_TRY(read_counted_cluster(library, text, request.nodes.value_or(1)));
    cards.push_back(TPT_TRY(play_suite(console, library, suite, cluster, request)));
    mark_shortened(cards.back(), suite, published);
  }
  return finish(library, suite, std::move(cards), request);
}

Result<Scoring> compare_cards(const spec::Library& library, const BenchRequest& request) {
  if (!request.clusters.empty() || !request.runs.empty() || request.plans || request.nodes ||
      request.duration || request.repeats)
    return error(
        "compare takes only cards (they contain the simulated settings); leave --cluster, --runs "
        "and what "
        "belongs to them out");
  std::vector<ScoreCard> cards = TPT_TRY(read_cards(request.files));
  const Suite suite = TPT_TRY(metrics::load_suite(library, cards[0].suite));
  return finish(library, suite, std::move(cards), request);
}

// A score card of runs that are there already.

namespace {

/// The job of a suite that a run is meant to be: by the file's name, else by the model's.
const SuiteJob* meant_job(const Suite& suite, const Path& file, const spec::Job& job) {
  const std::string stem = file.stem().string();
  for (const SuiteJob& wanted : suite.jobs)
    if (stem == wanted.name || stem.starts_with(wanted.name + "-") ||
        stem.starts_with(wanted.name + "."))
      return &wanted;
  for (const SuiteJob& wanted : suite.jobs)
    if (job.model.name == wanted.model.name) return &wanted;
  return nullptr;
}

/// The runs of one job.
struct Repeats {
  std::vector<ScoreValues> values;
  std::vector<std::string> broken;
};

/// What the runs of a card have in common.
struct Machine {
  std::set<std::string> clusters, gpus, origins;
  std::set<std::size_t> devices;
};

Result<run::Run> run_with_job(const spec::Library& library, const Path& file) {
  run::Run run = TPT_TRY(run::load(file.string()));
  if (run.manifest.job) return run;
  Path beside = file;
  beside.replace_extension(".toml");
  if (!path_exists(beside))
    return error(
        fmt::format("{}: the run has no job (the recorder was started without it); record with "
                    "--job, or put the job next to it, as {}",
                    file.string(), beside.filename().string()));
  run.manifest.job = TPT_TRY(spec::load_job(library, beside.string()));
  return run;
}

void note_machine(Machine& machine, const run::Run& run) {
  const spec::Cluster& cluster = run.manifest.job->cluster;
  machine.clusters.insert(fmt::format("{} x {}", cluster.name, cluster.num_nodes));
  machine.gpus.insert(cluster.gpu.name);
  machine.origins.insert(std::string(run::name_of(run.manifest.origin)));
  machine.devices.insert(run.devices.size());
}

void judge(const Suite& suite, const SuiteJob& wanted, const run::Run& run, const std::string& file,
           Repeats& repeats) {
  repeats.values.push_back(metrics::measure_for_score(run, suite.warm_up));
  for (const std::string& broken : metrics::broken_rules(suite, wanted, run))
    repeats.broken.push_back(fmt::format("{}: {}", file, broken));
  if (static_cast<int64_t>(run.devices.size()) != run.manifest.job->cluster.num_gpus())
    repeats.broken.push_back(fmt::format("{}: {} devices were watched, the job has {}", file,
                                         run.devices.size(), run.manifest.job->cluster.num_gpus()));
}

JobResult repeated_row(const Suite& suite, const SuiteJob& wanted, const Repeats& repeats) {
  JobResult row = metrics::combine_repeats(wanted, repeats.values);
  row.broken = repeats.broken;
  if (row.repeats > 0 && row.repeats < suite.repeats)
    row.broken.push_back(fmt::format("{} repeats, not {}", row.repeats, suite.repeats));
  return row;
}

std::string joined_words(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Result<ScoreCard> card_of_runs(tui::Console& console, const spec::Library& library,
                               const Suite& suite, const std::string& folder) {
  const std::vector<Path> files = TPT_TRY(list_files(folder, ".run"));
  if (files.empty())
    return error(
        fmt::format("{}: there are no .run files below it (a card is made of them); "
                    "record or simulate the jobs of {} into it",
                    folder, suite.label()));
  std::map<std::string, Repeats> repeats;
  Machine machine;
  for (const Path& file : files) {
    const run::Run run = TPT_TRY(run_with_job(library, file));
    const SuiteJob* wanted = meant_job(suite, file, *run.manifest.job);
    if (wanted == nullptr) {
      console.warn(
          fmt::format("triplepoint: {}: no job of {}, left out\n", file.string(), suite.label()));
      continue;
    }
    note_machine(machine, run);
    judge(suite, *wanted, run, file.filename().string(), repeats[wanted->name]);
  }
  if (machine.clusters.size() != 1 || machine.devices.size() != 1)
    return error(fmt::format(
        "{}: the runs are of {} (a card is of one cluster); sort them into "
        "folders",
        folder, machine.clusters.empty() ? "no job of the suite" : joined_words(machine.clusters)));
  ScoreCard card;
  card.suite = suite.label();
  card.name = *machine.clusters.begin();
  card.gpu = joined_words(machine.gpus);
  card.num_gpus = static_cast<int64_t>(*machine.devices.begin());
  card.origin = joined_words(machine.origins);
  card.duration_s = suite.duration / unit::s;
  for (const SuiteJob& wanted : suite.jobs)
    card.jobs.push_back(repeated_row(suite, wanted, repeats[wanted.name]));
  return card;
}

}  // namespace triplepoint::study
