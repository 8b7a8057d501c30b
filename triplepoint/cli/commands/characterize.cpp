// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/quoting.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/measuring.h"
#include "triplepoint/app/runner.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/app/suite.h"
#include "triplepoint/app/training.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/learn/calibration.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/document_text.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

class Characterize : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("STUDY", "a name (triplepoint show studies) or a study.toml", into(study_),
              {.words = Words::studies, .required = true})
        .flag("-o,--output", "FOLDER", "where results go (default: the study's name)",
              into(output_), {.words = Words::folders})
        .flag("--pages", "WHICH",
              "runs that get a page: the fastest, thriftiest "
              "and hottest of each model and machine (best, the default), all or none",
              into(pages_), {.choices = {"best", "all", "none"}})
        .flag("--with", "FOLDER",
              "predict with what triplepoint calibrate learned from your own runs", into(with_),
              {.words = Words::folders})
        .add(threads_.argument())
        .add(format_.argument())
        .group("What a suite scores (studies suite/...)")
        .flag("--cluster", "NAME",
              "cluster to simulate (default: the suite's own); NAME:N has N nodes; repeatable",
              into(machines_.clusters), {.words = Words::clusters, .repeats = true})
        .flag("--runs", "DIR", "folder of .run files of the suite's jobs; repeatable",
              into(machines_.runs), {.words = Words::folders, .repeats = true})
        .group("Measuring (--measure)")
        .toggle("--measure", "run every job instead of simulating it, one at a time", measure_)
        .flag("--launcher", "WHO",
              "how jobs are run: on this machine (local, the default; mpirun or threads), "
              "or by sbatch (slurm)",
              into(measure_plan_.launcher), {.choices = {"local", "mpirun", "threads", "slurm"}})
        .flag("--repeats", "N", "runs of each job; the median counts (default 1)",
              into_count(repeats_, 1))
        .flag("--steps", "N", "steps of a run (default 8)", into_count(steps_, 1))
        .flag("--warmup", "N", "of these, warm-up steps that are not measured (default 2)",
              into_count(warmup_, 0))
        .flag("--timeout", "TIME",
              fmt::format("time limit of one run, here and in Slurm's scripts (default: {:.0f}min "
                          "and {:g} times the simulated steps; where the simulation fails, at "
                          "least {:.0f}min)",
                          app::RunTime::start_up / unit::min, app::RunTime::margin,
                          app::RunTime::least_if_unsure / unit::min),
              into_time(measure_plan_.timeout, 1 * unit::s, app::RunTime::most))
        .toggle("--scripts-only",
                "write scripts and launch files without starting them; the next call reads "
                "their recordings",
                measure_plan_.scripts_only)
        .toggle("--retry", "repeat failed jobs", retry_);
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check_measuring());
    const spec::Library library = TPT_TRY(spec::require_library());
    spec::StudyPlan plan = TPT_TRY(spec::load_study(library, study_));
    TPT_TRY(check_suite(plan));
    const auto own = TPT_TRY(use_own_runs(plan));
    const Path folder = output_ ? Path(*output_) : Path(plan.name).filename();
    TPT_TRY(require_own_folder(plan, folder));
    app::StudyResults results = TPT_TRY(run_items(console, library, plan, own, folder));
    TPT_TRY(
        app::write_run_pages(tui::watch_on(console), results, folder, pages(), threads_.count()));
    TPT_TRY(app::write_results(results, folder));
    print_warnings(console, app::warnings_of(results.study));
    format_.is_json() ? console.print(results.json) : print(console, results, folder);
    return results.left > 0 ? print_resume_hint(console, results, folder) : exit_ok;
  }

 private:
  /// The same study resumes; another one's runs would be mixed with it.
  static Result<void> require_own_folder(const spec::StudyPlan& plan, const Path& folder) {
    const auto text = read_file(folder / app::study_plan_file);
    const auto there = text ? parse_json(*text, app::study_plan_file) : Result<Json>(error(""));
    const std::string name = there && there->is_object() ? there->value("study", "") : "";
    if (name.empty() || name == plan.name) return {};
    return error("{} holds study {} (runs would be mixed); name another folder with -o",
                 folder.string(), name);
  }

  Result<std::optional<learn::Calibration>> use_own_runs(spec::StudyPlan& plan) const {
    if (!with_) return std::nullopt;
    if (plan.score || measure_)
      return error(
          "--with applies to simulated jobs (a suite searches its plans, and what is measured is "
          "not predicted); leave it out");
    learn::Calibration own = TPT_TRY(learn::Calibration::read(*with_));
    parallel_for(plan.jobs.size(), threads_.count(), [&](std::size_t i) {
      spec::Job& job = plan.jobs[i].job;
      if (!spec::has_errors(plan.jobs[i].diagnoses)) job = own.applied(job);
    });
    return std::optional(std::move(own));
  }

  Result<void> check_suite(const spec::StudyPlan& plan) const {
    const bool has_machines = !machines_.clusters.empty() || !machines_.runs.empty();
    if (!plan.score && has_machines)
      return error(
          "{} is no suite (its jobs name their clusters, and nothing is scored); leave "
          "--cluster and --runs out, or name one of suite/...",
          study_);
    if (plan.score && measure_)
      return error(
          "{} is a suite (its plans are searched for); record its jobs and name the "
          "folder, as in --runs recordings/",
          study_);
    return {};
  }

  Result<void> check_measuring() {
    const bool of_measuring = repeats_ || steps_ || warmup_ || measure_plan_.timeout || retry_ ||
                              measure_plan_.scripts_only || measure_plan_.launcher != "local";
    if (!measure_ && of_measuring)
      return error(
          "--repeats, --steps, --warmup, --timeout, --launcher, --scripts-only and --retry apply "
          "to measured jobs (these are simulated); add --measure");
    measure_plan_.repeats = repeats_.value_or(1);
    measure_plan_.steps = steps_.value_or(8);
    measure_plan_.warmup = warmup_.value_or(std::min<int64_t>(2, measure_plan_.steps - 1));
    return app::require_measured_step(measure_plan_.warmup, measure_plan_.steps);
  }

  Result<app::StudyResults> run_items(tui::Console& console, const spec::Library& library,
                                      const spec::StudyPlan& plan,
                                      const std::optional<learn::Calibration>& own,
                                      const Path& folder) const {
    const Watch watch = tui::watch_on(console);
    // Two trainings on one machine would measure each other; Slurm keeps them apart.
    if (measure_)
      return app::measure_study(watch, plan, folder, measure_plan_, retry_,
                                threads_.count_or(measure_plan_.launcher == "slurm" ? 16 : 1));
    if (plan.score)
      return app::run_suite(watch, library, plan, machines_, folder, threads_.count());
    return app::simulate_study(watch, library, plan, own, folder, threads_.count());
  }

  app::RunPages pages() const {
    return pages_ == "all"    ? app::RunPages::all
           : pages_ == "none" ? app::RunPages::none
                              : app::RunPages::best;
  }

  static void print(tui::Console& console, const app::StudyResults& results, const Path& folder) {
    tui::print_document(console, report::study_document(results.study));
    console.print(fmt::format("\n{} jobs ({} from before{}); tables and report in {}\n",
                              results.study.rows.size(), results.reused,
                              results.failed > 0 ? fmt::format(", {} failed", results.failed) : "",
                              (folder / "report.html").string()));
  }

  int print_resume_hint(tui::Console& console, const app::StudyResults& results,
                        const Path& folder) const {
    if (measure_plan_.scripts_only && !interrupted()) {
      console.warn(fmt::format(
          "triplepoint: scripts of {0} jobs are in {1}/scripts (start them with bash or sbatch); "
          "then\n  triplepoint characterize {2} --measure -o {1}\n",
          results.left, shell_word(folder.string()), shell_word(study_)));
      return exit_ok;
    }
    console.warn(
        fmt::format("triplepoint: interrupted; {} jobs are finished, {} are left. To continue:\n  "
                    "triplepoint characterize {}{}{} -o {}\n",
                    results.study.rows.size(), results.left, shell_word(study_),
                    measure_ ? " --measure" : "", machine_flags(), shell_word(folder.string())));
    return exit_interrupted;
  }

  std::string machine_flags() const {
    std::string flags;
    for (const std::string& cluster : machines_.clusters)
      flags += " --cluster " + shell_word(cluster);
    for (const std::string& folder : machines_.runs)
      flags += " --runs " + shell_word(folder);
    return flags;
  }

  std::string study_;
  std::optional<std::string> output_, with_;
  app::SuiteMachines machines_;
  ThreadsFlag threads_{"jobs in parallel (default: all cores)"};
  std::optional<int64_t> repeats_, steps_, warmup_;
  formats::MeasurePlan measure_plan_;
  bool measure_ = false, retry_ = false;
  std::string pages_ = "best";
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_characterize() {
  return std::make_unique<Characterize>();
}

}  // namespace triplepoint::cli
