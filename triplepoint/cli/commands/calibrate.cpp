// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/calibrate/jobs/own_runs.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/this_machine_flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/learn/calibration.h"
#include "triplepoint/learn/priors_file.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/learned_text.h"

namespace triplepoint::cli {
namespace {

class Calibrate : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("ROWS.csv|NAME.run",
              "your own measured runs: tables as validate reads them, recordings with their job",
              into(files_), {.words = Words::files, .repeats = true})
        .flag("-o,--output", "FOLDER",
              "where what was learned is written, for --with (default mine; of --this-machine, "
              "this-machine)",
              into(output_), {.words = Words::files})
        .add(format_.argument())
        .add(threads_.argument())
        .add(this_machine_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    const ThreadLimit limit = threads_.limit();
    let_interrupts_end_us();
    if (this_machine_.given()) {
      if (!files_.empty())
        return error(
            "--this-machine and measured runs were both given (one measures this machine's cores, "
            "the other learns from runs of jobs); give one of them");
      return this_machine_.run(console, output_.value_or("this-machine"), format_);
    }
    if (files_.empty())
      return error(
          "there is nothing to learn from (calibrate learns from your own measured runs); name a "
          "table of them, as in `triplepoint calibrate runs.csv -o mine`, or try --this-machine");
    return learn(console, output_.value_or("mine"));
  }

 private:
  Result<int> learn(tui::Console& console, const std::string& folder) {
    const spec::Library library = TPT_TRY(spec::require_library());
    const learn::Priors priors = TPT_TRY(learn::load_priors(library));
    calibrate::OwnRuns own;
    for (const std::string& file : files_) {
      if (file.ends_with(".run")) {
        TPT_TRY(add_run(file, own));
        continue;
      }
      const CsvTable table =
          TPT_TRY(CsvTable::parse(TPT_TRY(read_file(file)), file, CsvTable::BadRows::leave_out));
      for (const CsvTable::BadRow& row : table.left_out())
        own.skipped.push_back({fmt::format("{}:{}", file, row.line), row.what});
      TPT_TRY(calibrate::add_own_runs(table, library, own));
    }
    if (own.runs.empty()) return error(nothing_in(own));
    const learn::Learned learned = TPT_TRY(learn::learn_from(priors, own.runs, threads_.count()));
    TPT_TRY(learned.calibration.write(folder));
    if (format_.is_json())
      print_json(console, calibrate::learned_json(learned, own, folder));
    else
      tui::print_learned(console, learned, own, folder);
    return exit_ok;
  }

  /// A run that was recorded with its job.
  static Result<void> add_run(const std::string& file, calibrate::OwnRuns& own) {
    const run::Run recorded = TPT_TRY(run::load(file));
    const auto step = metrics::measure(recorded).step_time;
    if (recorded.manifest.job && step)
      own.runs.push_back({file, *recorded.manifest.job, *step / unit::s});
    else
      own.skipped.push_back({file, step ? "it does not say which job it ran; record it with its job"
                                        : "it has no step"});
    return {};
  }

  static std::string nothing_in(const calibrate::OwnRuns& own) {
    if (own.skipped.empty())
      return "the tables hold no rows (one row is one measured run); add rows";
    return fmt::format("no row teaches anything ({}: {}); see docs/formats.md for the columns",
                       own.skipped.front().row_id, own.skipped.front().reason);
  }

  std::vector<std::string> files_;
  std::optional<std::string> output_;
  FormatFlag format_;
  ThreadsFlag threads_{"runs in parallel (default: all cores)"};
  ThisMachineFlags this_machine_;
};

}  // namespace

std::unique_ptr<Command> make_calibrate() {
  return std::make_unique<Calibrate>();
}

}  // namespace triplepoint::cli
