// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/tree_scores.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/metrics/run/view.h"
#include "triplepoint/report/figures/paper_figures.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/study/experiment_job.h"
#include "triplepoint/study/experiments.h"

namespace triplepoint::study {
namespace {

using calibrate::ScoredRow;
using calibrate::TableScores;
using metrics::KernelSeconds;
using report::PaperJob;
/// Of each traced rank, one step.
using RankKernels = std::map<int32_t, KernelSeconds>;

// ---- which job it was -------------------------------------------------------------------------

/// The jobs of the paper's sweeps, with what their figures call them.
struct KnownJobs {
  struct Entry {
    PaperJob label;
    spec::Job job;
    std::string place;  // "paper/h200:h200_gpt3-175b_TP8-PP4_base"
  };
  std::vector<Entry> entries;

  static Result<KnownJobs> load(const spec::Library& library) {
    KnownJobs known;
    for (const char* name : {"paper/h200", "paper/h100", "paper/microbatch-h200", "paper/lora"})
      for (spec::StudyJob& each : TPT_TRY(spec::load_study(library, name)).jobs) {
        if (spec::has_errors(each.diagnoses)) continue;
        run::Run run;
        run.manifest.job = each.job;
        known.entries.push_back({report::paper_job(run, {}, each.job.name), std::move(each.job),
                                 fmt::format("{}:{}", name, run.manifest.job->name)});
      }
    return known;
  }
};

std::string_view gpu_in(std::string_view machine) {
  const std::size_t at = machine.find(" x ");
  return at == std::string_view::npos ? machine : machine.substr(at + 3);
}

const KnownJobs::Entry* find(const KnownJobs& known, const PaperJob& label,
                             const std::string& variant) {
  for (const KnownJobs::Entry& each : known.entries) {
    const PaperJob& its = each.label;
    if (its.model == label.model && its.task == label.task && its.layout == label.layout &&
        its.variant == variant && its.microbatch == label.microbatch &&
        gpu_in(its.machine) == gpu_in(label.machine))
      return &each;
  }
  return nullptr;
}

struct ExperimentJob {
  spec::Job job;
  std::vector<std::string> notes;
};

Result<ExperimentJob> job_by_name(const KnownJobs& known, const Path& folder,
                                  const run::Run& recording) {
  constexpr std::size_t of_paper = 32;  // where no samples tell the number of GPUs
  run::Run machine;                     // what tells it, without the rest of the recording
  machine.devices = recording.devices;
  if (machine.devices.empty()) machine.devices.resize(of_paper);
  machine.manifest.facts = recording.manifest.facts;
  const std::string name = folder.filename().string();
  const PaperJob label = report::paper_job(machine, {}, name, folder);
  if (label.model.empty())
    return error(
        "the job is not known (no NeMo configuration is in the folder, and it is not named like an "
        "experiment of the artifact)");
  if (label.task == "inference")
    return error(
        "the job is not known (experiments of inference are known by a NeMo configuration in the "
        "folder only)");
  const KnownJobs::Entry* found = find(known, label, label.variant);
  std::string note;
  if (const std::size_t overlap = label.variant.find("overlap");
      !found && overlap != std::string::npos) {
    found = find(known, label, overlap == 0 ? "base" : "recompute");
    note = "; overlap changes nothing in this layout";
  }
  if (!found)
    return error(
        fmt::format("the job is not known ({} {} with microbatch {} on {} is not in the "
                    "paper/ studies); put its NeMo configuration into the folder",
                    report::model_and_task(label), label.layout + " " + label.variant,
                    label.microbatch, gpu_in(label.machine)));
  return ExperimentJob{found->job,
                       {fmt::format("the job is {} by the folder's name{}", found->place, note)}};
}

Result<ExperimentJob> job_of(const spec::Library& library, const KnownJobs& known,
                             const Path& folder, const run::Run& recording) {
  auto configured = configured_job(library, folder, recording);
  if (!configured) return job_by_name(known, folder, recording);
  if (!*configured) return error("the job is not known: " + configured->error().what);
  std::vector<std::string> notes = std::move((*configured)->notes);
  return ExperimentJob{**std::move(configured), std::move(notes)};
}

// ---- what was measured ------------------------------------------------------------------------

RankKernels kernels_of(const run::Run& run) {
  const metrics::View view = metrics::look_at(run);
  const std::vector<KernelSeconds> all =
      metrics::kernel_seconds_of_ranks(view.timeline(), metrics::KernelRules::upstream);
  RankKernels kernels;
  for (const int32_t rank : view.ranks) {
    kernels[rank] = all[static_cast<std::size_t>(rank)];
    kernels[rank] *= 1 / view.num_steps();
  }
  return kernels;
}

KernelSeconds mean_of(const RankKernels& kernels, const RankKernels& ranks) {
  KernelSeconds sum;
  for (const auto& [rank, of_rank] : ranks)
    if (const auto found = kernels.find(rank); found != kernels.end()) sum += found->second;
  sum *= 1 / static_cast<double>(ranks.size());
  return sum;
}

struct Recorded {
  run::Run run;
  metrics::Metrics metrics;
  RankKernels kernels;
};

Result<Recorded> read_recorded(const Path& folder) {
  Recorded recorded;
  const auto sums = TPT_TRY(read_kernel_stats(folder));
  Result<run::Run> run = read_experiment(folder, {});
  if (!run && !sums) return error(run.error().what);
  if (run) recorded.run = *std::move(run);
  recorded.metrics = metrics::measure(recorded.run);
  recorded.kernels = kernels_of(recorded.run);
  if (recorded.kernels.empty() && sums)
    for (std::size_t rank = 0; rank < sums->size(); ++rank)
      if ((*sums)[rank].total() > Seconds())
        recorded.kernels[static_cast<int32_t>(rank)] = (*sums)[rank];
  return recorded;
}

/// As many as samples, traces or kernel sums are of.
int64_t ranks_in(const Recorded& recorded) {
  const int64_t summed = recorded.kernels.empty() ? 0 : recorded.kernels.rbegin()->first + 1;
  return std::max(ranks_of(recorded.run), summed);
}

// ---- one experiment ---------------------------------------------------------------------------

struct Experiment {
  Path folder;
  std::string name;
  bool out_of_memory = false;
  std::vector<ScoredRow> rows;
  std::string skipped;            // why
  std::optional<bool> fits = {};  // predicted; nothing where it was not
};

struct KernelClass {
  const char* name;
  Seconds KernelSeconds::*seconds;
};
constexpr std::array kernel_classes = {
    KernelClass{"compute", &KernelSeconds::compute},
    KernelClass{"all_reduce", &KernelSeconds::all_reduce},
    KernelClass{"all_gather", &KernelSeconds::all_gather},
    KernelClass{"reduce_scatter", &KernelSeconds::reduce_scatter},
    KernelClass{"send_recv", &KernelSeconds::send_recv},
    KernelClass{"memory", &KernelSeconds::memory},
    KernelClass{"other", &KernelSeconds::other}};

/// Puts the numbers of a recording beside those of a simulation.
class Comparer {
 public:
  Comparer(ScoredRow common, std::vector<ScoredRow>& rows)
      : common_(std::move(common)), rows_(rows) {}

  void compare_step(Seconds measured, std::optional<Seconds> predicted,
                    const std::optional<metrics::Interval>& interval) {
    add("step_time_s", measured / unit::s, predicted.value_or(Seconds()) / unit::s);
    rows_.back().interval = interval;
  }

  void compare_readings(const metrics::Metrics& measured, const metrics::Metrics& predicted) {
    const auto both = [&](const char* quantity, std::optional<double> metrics::Metrics::*field) {
      if (measured.*field && predicted.*field)
        add(quantity, *(measured.*field), *(predicted.*field));
    };
    both("power_mean_w", &metrics::Metrics::power_mean_w);
    both("power_peak_w", &metrics::Metrics::power_peak_w);
    both("temperature_mean_c", &metrics::Metrics::temperature_mean_c);
    both("temperature_peak_c", &metrics::Metrics::temperature_peak_c);
    both("sm_clock_mean_mhz", &metrics::Metrics::sm_clock_mean_mhz);
  }

  void compare_kernels(const RankKernels& measured, const RankKernels& predicted) {
    if (measured.empty()) return;
    const KernelSeconds seen = mean_of(measured, measured), ours = mean_of(predicted, measured);
    std::vector<std::string> unseen;
    for (const KernelClass& each : kernel_classes) {
      const double there = seen.*(each.seconds) / unit::s, here = ours.*(each.seconds) / unit::s;
      if (there > 0)
        add(fmt::format("kernel_{}_s", each.name), there, here);
      else if (here > 0)
        unseen.push_back(
            fmt::format("{:.3g} s of {} are predicted, none were recorded", here, each.name));
    }
    add("kernel_total_s", seen.total() / unit::s, ours.total() / unit::s);
    std::move(unseen.begin(), unseen.end(), std::back_inserter(rows_.back().notes));
  }

 private:
  void add(std::string quantity, double measured, double predicted) {
    ScoredRow row = common_;
    row.family = quantity;
    row.quantity = std::move(quantity);
    row.measured = measured;
    row.predicted = predicted;
    rows_.push_back(std::move(row));
  }

  ScoredRow common_;
  std::vector<ScoredRow>& rows_;
};

/// What the rows of an experiment share.
ScoredRow common_row(const Experiment& experiment, const Recorded& recorded,
                     const ExperimentJob& found) {
  ScoredRow row;
  row.row_id = experiment.name;
  row.notes = found.notes;
  run::Run of_job;
  of_job.manifest.job = found.job;
  const PaperJob label = report::paper_job(of_job, {}, experiment.name);
  row.sweep = fmt::format("{} on {}", report::model_and_task(label), label.machine);
  for (const std::string& part : missing_parts(recorded.run))
    row.notes.push_back("incomplete: " + part);
  const auto seen = static_cast<int64_t>(recorded.run.devices.size());
  if (!recorded.run.manifest.job && seen > 0 && seen < found.job.world_size())
    row.notes.push_back(fmt::format("incomplete: samples of {} of the job's {} GPUs", seen,
                                    found.job.world_size()));
  return row;
}

class Scorer {
 public:
  static Result<Scorer> make(const spec::Library& library) {
    return Scorer{library, TPT_TRY(KnownJobs::load(library)),
                  TPT_TRY(metrics::PredictionIntervals::load(library))};
  }

  void score(Experiment& experiment) const {
    if (Result<void> scored = predict(experiment); !scored)
      experiment.skipped = scored.error().what;
  }

 private:
  Scorer(const spec::Library& library, KnownJobs known, metrics::PredictionIntervals intervals)
      : library_(library), known_(std::move(known)), intervals_(std::move(intervals)) {}

  Result<void> predict(Experiment& experiment) const {
    const Recorded recorded =
        experiment.out_of_memory ? Recorded() : TPT_TRY(read_recorded(experiment.folder));
    const ExperimentJob found = TPT_TRY(job_of(library_, known_, experiment.folder, recorded.run));
    TPT_TRY(require_ranks("the job is not known: " + found.notes.front(), found.job,
                          ranks_in(recorded)));
    const run::Run simulated = sim::simulate(found.job, {});
    experiment.fits = simulated.manifest.fits_memory;
    if (experiment.out_of_memory) return {};
    compare(experiment, recorded, found, simulated);
    if (!experiment.rows.empty()) return {};
    return error(*experiment.fits
                     ? "nothing was recorded that can be compared"
                     : "the job does not fit in memory by our estimate, and no step was recorded");
  }

  void compare(Experiment& experiment, const Recorded& recorded, const ExperimentJob& found,
               const run::Run& simulated) const {
    ScoredRow common = common_row(experiment, recorded, found);
    common.regime = intervals_.regime_of(found.job);
    if (!*experiment.fits) common.notes.emplace_back("does not fit in memory by our estimate");
    const metrics::Metrics predicted =
        *experiment.fits ? metrics::measure(simulated) : metrics::Metrics();
    Comparer comparer(std::move(common), experiment.rows);
    if (recorded.metrics.step_time)
      comparer.compare_step(*recorded.metrics.step_time, predicted.step_time,
                            predicted.step_time
                                ? intervals_.step_time(found.job, *predicted.step_time / unit::s)
                                : std::nullopt);
    if (!*experiment.fits) return;
    comparer.compare_readings(recorded.metrics, predicted);
    comparer.compare_kernels(recorded.kernels, kernels_of(simulated));
  }

  const spec::Library& library_;
  KnownJobs known_;
  metrics::PredictionIntervals intervals_;
};

std::vector<Experiment> experiments_of(const Path& given) {
  const Path tree = by_own_name(given);
  std::vector<Path> folders = experiments_in(tree), empty = out_of_memory_in(tree);
  if (out_of_memory(tree)) empty.push_back(tree);
  folders.insert(folders.end(), empty.begin(), empty.end());
  std::sort(folders.begin(), folders.end());
  const std::vector<std::string> names = experiment_names(folders, tree);
  std::vector<Experiment> all;
  for (std::size_t i = 0; i < folders.size(); ++i)
    all.push_back(
        {.folder = folders[i],
         .name = names[i],
         .out_of_memory = std::find(empty.begin(), empty.end(), folders[i]) != empty.end(),
         .rows = {},
         .skipped = {}});
  return all;
}

void count_verdict(const Experiment& experiment, calibrate::FitVerdicts& fit) {
  if (!experiment.fits) return;
  if (experiment.out_of_memory)
    *experiment.fits ? fit.false_fit.push_back(experiment.name)
                     : void(++fit.failed_and_does_not_fit);
  else
    *experiment.fits ? void(++fit.ran_and_fits) : fit.false_oom.push_back(experiment.name);
}

}  // namespace

Result<TableScores> score_tree(const Path& tree, const calibrate::ScoreContext& context) {
  std::vector<Experiment> all = experiments_of(tree);
  if (all.empty()) TPT_TRY(list_files(tree, ""));  // one that may not be read seems empty
  if (all.empty())
    return error(
        fmt::format("{}: no table of measurements and no experiment of the MICRO'25 artifact "
                    "(samples as in gpu_power_0.csv, traces as in 1_kineto/rank-0.json, kernel "
                    "sums); name a CSV file or a result tree",
                    tree.string()));
  const Scorer scorer = TPT_TRY(Scorer::make(context.library));
  if (context.begin) context.begin(all.size());
  parallel_for(all.size(), context.threads, [&](std::size_t i) {
    scorer.score(all[i]);
    if (context.advance) context.advance();
  });
  TableScores scores{.table = "result tree", .rows = static_cast<int64_t>(all.size())};
  for (Experiment& each : all) {
    count_verdict(each, scores.fit);
    if (!each.skipped.empty()) scores.skip(each.name, each.skipped);
    std::move(each.rows.begin(), each.rows.end(), std::back_inserter(scores.scored));
  }
  return scores;
}

}  // namespace triplepoint::study
