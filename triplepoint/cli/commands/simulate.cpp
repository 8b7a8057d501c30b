// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/replay_flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/like_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/flags/simulation_flags.h"
#include "triplepoint/store/store.h"
#include "triplepoint/study/library_text.h"
#include "triplepoint/study/study_output.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

class Simulate : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments()
        .add(simulation_.length())
        .group("Duration and output")
        .flag("-o,--output", "NAME.run", "write the run", into(output_), {.words = Words::files})
        .add(simulation_.profile())
        .add(threads_.argument())
        .add(format_.argument())
        .add(simulation_.faults_and_bill())
        .add(replay_.arguments())
        .add(like_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const ThreadLimit limit = threads_.limit();
    TPT_TRY(replay_.check());
    TPT_TRY(like_.check());
    if (replay_.given()) return replay_trace(console);
    const spec::Library library = TPT_TRY(spec::require_library());
    if (like_.given() && !flags_.require_no_job_but_cluster())
      return error("a job and --like were both given (the run contains its job); keep one of them");
    spec::Job job = TPT_TRY(like_.given() ? flags_.with_own_runs(TPT_TRY(like_.job(library)))
                                          : flags_.job(library));
    const std::string own = study::own_model_text(library, job);
    const auto learned = TPT_TRY(flags_.own_runs());
    const study::JobResults results =
        TPT_TRY(simulation_.results(library, std::move(job), learned));
    if (!own.empty() && !format_.is_json()) console.print(own + "\n");
    study::print_warnings(console, *results.run.manifest.job);
    TPT_TRY(write(results.run));
    format_.is_json() ? print_json(console, study::results_json(results))
                      : study::print_results(console, results);
    return exit_ok;
  }

 private:
  /// A measured step in place of a job.
  Result<int> replay_trace(tui::Console& console) const {
    TPT_TRY(flags_.require_no_job_but_cluster());
    if (TPT_TRY(flags_.own_runs()))
      return error(
          "--with and --replay were both given (a measured step has its own times); keep one of "
          "them");
    const run::Run replayed = TPT_TRY(replay_.run(console, format_.is_json(), flags_.cluster()));
    TPT_TRY(write(replayed));
    return exit_ok;
  }

  Result<void> write(const run::Run& run) const {
    if (!output_) return {};
    TPT_TRY(require_other_file(*output_, {flags_.file()}));
    TPT_TRY(run::save(run, *output_));
    return {};
  }

  JobFlags flags_;
  LikeFlags like_;
  ReplayFlags replay_;
  SimulationFlags simulation_;
  ThreadsFlag threads_{"threads to simulate (default: all cores)"};
  FormatFlag format_;
  std::optional<std::string> output_;
};

}  // namespace

std::unique_ptr<Command> make_simulate() {
  return std::make_unique<Simulate>();
}

}  // namespace triplepoint::cli
