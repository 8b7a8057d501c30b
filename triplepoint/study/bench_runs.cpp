// SPDX-License-Identifier: Apache-2.0
// A score card of runs that are there already.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "triplepoint/run/store.h"

#include "triplepoint/search/plan_tables.h"
#include "triplepoint/study/bench_play.h"

namespace triplepoint::study {
namespace {

using metrics::JobResult;
using metrics::ScoreCard;
using metrics::ScoreValues;
using metrics::Suite;
using metrics::SuiteJob;

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
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored))
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

JobResult row_of(const Suite& suite, const SuiteJob& wanted, const Repeats& repeats) {
  JobResult row = metrics::combine_repeats(wanted, repeats.values);
  row.broken = repeats.broken;
  if (row.repeats > 0 && row.repeats < suite.repeats)
    row.broken.push_back(fmt::format("{} repeats, not {}", row.repeats, suite.repeats));
  return row;
}

std::string joined(const std::set<std::string>& words) {
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
        folder, machine.clusters.empty() ? "no job of the suite" : joined(machine.clusters)));
  ScoreCard card;
  card.suite = suite.label();
  card.name = *machine.clusters.begin();
  card.gpu = joined(machine.gpus);
  card.num_gpus = static_cast<int64_t>(*machine.devices.begin());
  card.origin = joined(machine.origins);
  card.duration_s = suite.duration / unit::s;
  for (const SuiteJob& wanted : suite.jobs)
    card.jobs.push_back(row_of(suite, wanted, repeats[wanted.name]));
  return card;
}

}  // namespace triplepoint::study
