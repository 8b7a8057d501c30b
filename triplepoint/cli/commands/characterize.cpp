// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/interrupt.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/study/measuring.h"
#include "triplepoint/study/run_pages.h"
#include "triplepoint/study/runner.h"
#include "triplepoint/study/study_table.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/tui/text_table.h"

namespace triplepoint::cli {
namespace {

class Characterize : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = {
        {.names = "STUDY",
         .help = "a name (triplepoint list studies) or a study.toml",
         .words = Words::studies,
         .required = true,
         .store = into(study_)},
        {.names = "-o,--output",
         .value = "FOLDER",
         .help = "where results go (default: the study's name)",
         .words = Words::folders,
         .store = into(output_)},
        {.names = "--pages",
         .value = "WHICH",
         .help = "runs that get a page: the fastest, thriftiest "
                 "and hottest of each model and machine (best, the default), all or none",
         .choices = {"best", "all", "none"},
         .store = into(pages_)},
        threads_.argument(),
        format_.argument()};
    for (Argument& argument : measuring_arguments())
      all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check_measuring());
    const spec::Library library = TPT_TRY(spec::require_library());
    const spec::StudyPlan plan = TPT_TRY(spec::load_study(library, study_));
    const Path folder = output_ ? Path(*output_) : Path(plan.name).filename();
    study::StudyResults results = TPT_TRY(play(console, library, plan, folder));
    TPT_TRY(write_pages(console, results, folder));
    TPT_TRY(study::write_results(results, folder));
    format_.is_json() ? console.print(results.json) : print_summary(console, results, folder);
    return results.left > 0 ? say_how_to_go_on(console, results, folder) : exit_ok;
  }

 private:
  static constexpr const char* measuring = "Measuring (--measure)";

  std::vector<Argument> measuring_arguments() {
    return {{.names = "--measure",
             .help = "run every job instead of simulating it, one at a time",
             .group = measuring,
             .store = into_switch(measure_)},
            {.names = "--launcher",
             .value = "WHO",
             .help = "how jobs are run: on this machine (local, the default; mpirun or threads), "
                     "or by sbatch (slurm)",
             .group = measuring,
             .choices = {"local", "mpirun", "threads", "slurm"},
             .store = into(measure_plan_.launcher)},
            {.names = "--repeats",
             .value = "N",
             .help = "runs of each job; the median counts (default 1)",
             .group = measuring,
             .store = into(repeats_)},
            {.names = "--steps",
             .value = "N",
             .help = "steps of a run (default 8)",
             .group = measuring,
             .store = into(steps_)},
            {.names = "--warmup",
             .value = "N",
             .help = "of these, warm-up steps that are not measured (default 2)",
             .group = measuring,
             .store = into(warmup_)},
            {.names = "--timeout",
             .value = "TIME",
             .help = "time limit of one run (default 10min)",
             .group = measuring,
             .store = into_quantity(timeout_)},
            {.names = "--scripts-only",
             .help = "write scripts and launch files without starting them; the next call reads "
                     "their recordings",
             .group = measuring,
             .store = into_switch(measure_plan_.scripts_only)},
            {.names = "--retry",
             .help = "repeat failed jobs",
             .group = measuring,
             .store = into_switch(retry_)}};
  }

  Result<void> check_measuring() {
    const bool of_measuring = repeats_ || steps_ || warmup_ || timeout_ || retry_ ||
                              measure_plan_.scripts_only || measure_plan_.launcher != "local";
    if (!measure_ && of_measuring)
      return error(
          "--repeats, --steps, --warmup, --timeout, --launcher, --scripts-only and --retry apply "
          "to measured jobs (these are simulated); add --measure");
    measure_plan_.repeats = repeats_.value_or(1);
    measure_plan_.steps = steps_.value_or(8);
    measure_plan_.warmup = warmup_.value_or(std::min<int64_t>(2, measure_plan_.steps - 1));
    if (timeout_) measure_plan_.timeout = *timeout_;
    if (measure_plan_.repeats < 1 || measure_plan_.steps < 1)
      return error("--repeats and --steps count what is run; give 1 or more");
    if (measure_plan_.warmup < 0 || measure_plan_.warmup >= measure_plan_.steps)
      return error(
          fmt::format("--warmup {} of {} steps (at least one has to be measured); give 0 "
                      "to {}",
                      measure_plan_.warmup, measure_plan_.steps, measure_plan_.steps - 1));
    if (measure_plan_.timeout < 1 * unit::s)
      return error("--timeout is below a second (nothing starts so fast); try 10min");
    return {};
  }

  Result<study::StudyResults> play_for_real(tui::Console& console, const spec::StudyPlan& plan,
                                            const Path& folder) const {
    std::error_code problem;
    const study::JobMeasurer measurer = TPT_TRY(study::JobMeasurer::make(
        folder, measure_plan_, std::filesystem::read_symlink("/proc/self/exe", problem),
        interrupted));
    tui::Progress progress(console, measure_plan_.scripts_only ? "Writing scripts" : "Measuring",
                           plan.jobs.size());
    const study::StudyWorld world{
        .simulate = {},
        .stopped = interrupted,
        .finished = [&progress] { progress.advance(); },
        .program_digest = fmt::format("measured {} {} {}", measure_plan_.repeats,
                                      measure_plan_.steps, measure_plan_.warmup),
        .measure = measurer,
        .retry_failures = retry_};
    // Two trainings on one machine would measure each other; Slurm keeps them apart.
    const int64_t at_once = measure_plan_.launcher == "slurm" ? 16 : 1;
    return study::run_study(plan, folder, threads_.count_or(at_once), world);
  }

  Result<study::StudyResults> play(tui::Console& console, const spec::Library& library,
                                   const spec::StudyPlan& plan, const Path& folder) const {
    if (measure_) return play_for_real(console, plan, folder);
    tui::Progress progress(console, "Simulating", plan.jobs.size());
    const study::StudyWorld world{
        .simulate = [](const spec::Job& job) { return sim::simulate(job, {}); },
        .stopped = interrupted,
        .finished = [&progress] { progress.advance(); },
        .program_digest = study::program_digest(library)};
    return study::run_study(plan, folder, threads_.count(), world);
  }

  study::RunPages pages() const {
    return pages_ == "all"    ? study::RunPages::all
           : pages_ == "none" ? study::RunPages::none
                              : study::RunPages::best;
  }

  Result<void> write_pages(tui::Console& console, study::StudyResults& results,
                           const Path& folder) const {
    const std::size_t most = pages() == study::RunPages::all ? results.study.rows.size()
                             : pages() == study::RunPages::best
                                 ? study::best_rows(results.study).size()
                                 : 0;
    tui::Progress progress(console, "Writing pages", most);
    return study::write_run_pages(results, folder, pages(), threads_.count(),
                                  [&progress] { progress.advance(); });
  }

  static void print_summary(tui::Console& console, const study::StudyResults& results,
                            const Path& folder) {
    console.print(study::study_table(console, results.study) + "\n");
    for (const report::Finding& finding : report::find_findings(results.study)) {
      console.print(
          tui::wrap("- " + finding.text(), console.abilities().width.value_or(100), "  ") + "\n");
    }
    console.print(fmt::format("\n{} jobs ({} from before{}); tables and report in {}\n",
                              results.study.rows.size(), results.reused,
                              results.failed > 0 ? fmt::format(", {} failed", results.failed) : "",
                              (folder / "report.html").string()));
  }

  int say_how_to_go_on(tui::Console& console, const study::StudyResults& results,
                       const Path& folder) const {
    if (measure_plan_.scripts_only && !interrupted()) {
      console.warn(fmt::format(
          "triplepoint: scripts of {0} jobs are in {1}/scripts (start them with bash or sbatch); "
          "then\n  triplepoint characterize {2} --measure -o {1}\n",
          results.left, folder.string(), study_));
      return exit_ok;
    }
    console.warn(
        fmt::format("triplepoint: interrupted; {} jobs are finished, {} are left. To continue:\n  "
                    "triplepoint characterize {}{} -o {}\n",
                    results.study.rows.size(), results.left, study_, measure_ ? " --measure" : "",
                    folder.string()));
    return exit_interrupted;
  }

  std::string study_;
  std::optional<std::string> output_;
  ThreadsFlag threads_{"jobs in parallel (default: all cores)"};
  std::optional<int64_t> repeats_, steps_, warmup_;
  std::optional<Seconds> timeout_;
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
