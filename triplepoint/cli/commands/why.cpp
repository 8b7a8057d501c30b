// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/gap.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/learn/calibration.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/system/process.h"

namespace triplepoint::cli {
namespace {

class Why : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("MEASURED", "a recording or a table of readings, its training's log, its traces",
              into(sources_), {.words = Words::files, .required = true, .repeats = true})
        .flag("--against", "JOB|RUN",
              "what to compare with: a job, which is simulated, or another run (default: the job "
              "that the recording names)",
              into(against_), {.words = Words::files})
        .flag("--cluster", "NAME", "cluster of a --against file that names none", into(cluster_),
              {.words = Words::clusters})
        .flag("--with", "FOLDER", "predict with what triplepoint calibrate learned", into(with_),
              {.words = Words::folders})
        .flag("-o,--output", "FILE.html", "also write the page", into(output_),
              {.words = Words::files})
        .add(threads_.argument())
        .add(format_.argument("output format (default table; csv has one line per cause)"));
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const ThreadLimit limit = threads_.limit();
    if (output_) TPT_TRY(require_other_file(*output_, sources_));
    const run::Run measured = TPT_TRY(app::load_run_source(sources_));
    const std::optional<run::Run> predicted = TPT_TRY(prediction(measured));
    const spec::Library library = TPT_TRY(spec::require_library());
    const auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
    advise::Gap gap = advise::explain_gap(measured, predicted ? &*predicted : nullptr, intervals);
    if (!run::has_trained(measured))
      return error(
          "{}: it did not run ({}), so no step can be explained; triplepoint "
          "show says what it needs",
          sources_.front(), run::verdict_of(measured));
    constexpr double at_odds = 1.2;  // of what two clocks of one log say
    if (gap.history.base > at_odds * gap.history.mean)
      return error(
          "{}: its time stamps say {} a step, its step times {} (they contradict each other); give "
          "a log of one clock",
          sources_.front(), advise::time_of(gap.history.mean), advise::time_of(gap.history.base));
    if (!(gap.measured > Seconds()))
      return error(sources_.front() +
                   ": it has no steps (why explains the time of a step); mark them while "
                   "recording, or give traces of kernels or a training's log instead; triplepoint "
                   "report says which GPU is slow");
    const bool was_busy = run::was_disturbed(measured.numbers);
    if (was_busy)  // which shows as waiting and as late hosts
      for (advise::GapPart& part : gap.parts)
        part.advice.clear();
    answers::Document answer = advise::why_answer(
        gap, measured, "Why is a step of " + app::stem_of_source(sources_.front()) + " slow?");
    if (was_busy)
      answer.verdict.insert(0,
                            "Other programs used the processors meanwhile, which alone may explain "
                            "it; measure again without them. ");
    print_answer(console, answer, format_);
    if (output_) TPT_TRY(write_file_atomically(*output_, report::document_page(answer)));
    if (output_ && format_.is_table()) console.print("wrote " + *output_ + "\n");
    return exit_ok;
  }

 private:
  /// Nothing where neither flag nor recording names a job.
  Result<std::optional<run::Run>> prediction(const run::Run& measured) const {
    const bool against_run = against_ && app::kind_of_source(*against_) == app::SourceKind::run;
    if (cluster_ && (!against_ || against_run))
      return error(
          "--cluster names the GPUs of a job (there is none that lacks them); add --against JOB");
    if (against_run && !with_) return std::optional(TPT_TRY(app::load_run_source({*against_})));
    if (!against_ && !measured.manifest.job) {
      if (with_)
        return error(
            "--with changes a prediction (neither the recording nor a flag names a job); add "
            "--against JOB");
      return std::optional<run::Run>();
    }
    spec::Job job = measured.manifest.job.value_or(spec::Job{});
    const spec::Library library = TPT_TRY(spec::require_library());
    if (against_) job = TPT_TRY(formats::read_job(library, *against_, {.cluster = cluster_}));
    job.environment.faults.clear();
    if (with_) job = TPT_TRY(learn::Calibration::read(*with_)).applied(job);
    TPT_TRY(spec::require_valid(job));
    run::Run run = sim::simulate(job, {});
    if (!run::has_trained(run))
      return error("the job to compare with does not run (" + std::string(run::verdict_of(run)) +
                   "); name another with --against");
    return std::optional(std::move(run));
  }

  std::vector<std::string> sources_;
  std::optional<std::string> against_, cluster_, with_, output_;
  ThreadsFlag threads_{"threads to simulate (default: all cores)"};
  FormatFlag format_{FormatFlag::Csv::yes};
};

}  // namespace

std::unique_ptr<Command> make_why() {
  return std::make_unique<Why>();
}

}  // namespace triplepoint::cli
