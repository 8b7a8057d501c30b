// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/progress.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/run_pages.h"
#include "triplepoint/cli/study_runner.h"
#include "triplepoint/cli/study_table.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/findings.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::cli {
namespace {

class Characterize : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {{.names = "STUDY",
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
             .help = "whose runs get a page, one click from the study's: the fastest, thriftiest "
                     "and hottest of each model and machine (best, the default), all or none",
             .choices = {"best", "all", "none"},
             .store = into(pages_)},
            {.names = "--threads",
             .value = "N",
             .help = "jobs at once (default: all cores)",
             .store = into(threads_)},
            format_.argument()};
  }

  Result<int> run(Console& console) override {
    if (threads_ && *threads_ < 1)
      return error("--threads is below 1 (somebody must work); try --threads 1");
    const spec::Library library = TPT_TRY(require_library());
    const spec::StudyPlan plan = TPT_TRY(spec::load_study(library, study_));
    const Path folder = output_ ? Path(*output_) : Path(plan.name).filename();
    StudyResults results = TPT_TRY(play(console, library, plan, folder));
    TPT_TRY(write_pages(console, results, folder));
    TPT_TRY(write_results(results, folder));
    format_.is_json() ? console.print(results.json) : print_summary(console, results, folder);
    return results.left > 0 ? say_how_to_go_on(console, results, folder) : exit_ok;
  }

 private:
  Result<StudyResults> play(Console& console, const spec::Library& library,
                            const spec::StudyPlan& plan, const Path& folder) const {
    Progress progress(console, "Simulating", plan.jobs.size());
    const StudyWorld world{.simulate = [](const spec::Job& job) { return sim::simulate(job, {}); },
                           .stopped = interrupted,
                           .finished = [&progress] { progress.advance(); },
                           .program_digest = program_digest(library)};
    return run_study(plan, folder, static_cast<int>(threads_.value_or(available_threads())), world);
  }

  RunPages pages() const {
    return pages_ == "all" ? RunPages::all : pages_ == "none" ? RunPages::none : RunPages::best;
  }

  Result<void> write_pages(Console& console, StudyResults& results, const Path& folder) const {
    const std::size_t most = pages() == RunPages::all    ? results.study.rows.size()
                             : pages() == RunPages::best ? best_rows(results.study).size()
                                                         : 0;
    Progress progress(console, "Writing pages", most);
    return write_run_pages(results, folder, pages(),
                           static_cast<int>(threads_.value_or(available_threads())),
                           [&progress] { progress.advance(); });
  }

  static void print_summary(Console& console, const StudyResults& results, const Path& folder) {
    console.print(study_table(console, results.study) + "\n");
    for (const report::Finding& finding : report::find_findings(results.study)) {
      console.print(wrap("- " + finding.text(), console.abilities().width.value_or(100), "  ") +
                    "\n");
    }
    console.print(fmt::format("\n{} jobs ({} from before); tables and report in {}\n",
                              results.study.rows.size(), results.reused,
                              (folder / "report.html").string()));
  }

  int say_how_to_go_on(Console& console, const StudyResults& results, const Path& folder) const {
    console.warn(
        fmt::format("triplepoint: interrupted; {} jobs are finished and kept, {} are left. To go "
                    "on:\n  triplepoint characterize {} -o {}\n",
                    results.study.rows.size(), results.left, study_, folder.string()));
    return exit_interrupted;
  }

  std::string study_;
  std::optional<std::string> output_;
  std::optional<int64_t> threads_;
  std::string pages_ = "best";
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_characterize() {
  return std::make_unique<Characterize>();
}

}  // namespace triplepoint::cli
