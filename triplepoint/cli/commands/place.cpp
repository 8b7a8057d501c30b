// SPDX-License-Identifier: Apache-2.0
// Which stages belong on which GPUs, when some sit warmer than others?
#include "triplepoint/advise/place.h"

#include <algorithm>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/app/library_text.h"
#include "triplepoint/app/place_telemetry.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

class Place : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .group("Input, search and output")
        .flag("--from", "FILE",
              "runs, or what other samplers record (nvidia-smi, dcgmi, rocm-smi, amd-smi, "
              "Prometheus, ...); repeatable (default: the job is simulated)",
              into(from_), {.words = Words::files})
        .flag("--row", "NAME", "of a CSV table: its config or snapshot_id", into(choice_.row))
        .flag("--by", "SIGN",
              "signal to group GPUs by (default: temperature, else clock, else throttling)",
              into(by_), {.choices = {"temperature", "clock", "throttling"}})
        .flag("--judge", "N",
              "maximum number of placements that the search simulates (default 4000)",
              into_count(options_.most_judged, 1))
        .flag("--hosts", "LIST", "names of the nodes, for the host file", into(hosts_))
        .flag("-o,--output", "DIR",
              "write each placement as job.toml, megatron.sh, nemo.yaml, devices.sh, "
              "hostfile, and a page of all, report.html; NAME.html writes the page alone",
              into(output_), {.words = Words::folders})
        .add(threads_.argument())
        .add(format_.argument())
        .add(energy_.arguments())
        .add(flags_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    const ThreadLimit limit = threads_.limit();
    TPT_TRY(check_words());
    app::Telemetry seen = TPT_TRY(app::read_telemetry(from_, choice_));
    const spec::Library library = TPT_TRY(spec::require_library());
    const bool named = flags_.name_a_job();
    if (!named && !seen.job && from_.empty())
      return error(
          "no job and no telemetry (there is nothing to place); name a job, or --from recordings");
    if (!named && !seen.job) {
      const advise::GroupedMachine machine =
          TPT_TRY(app::group_devices(seen.samples, from_, by_, {}));
      print_answer(console, advise::groups_answer(machine, seen.notes), format_);
      return exit_ok;
    }
    spec::Job job = seen.job && !named ? TPT_TRY(flags_.with_own_runs(*seen.job))
                                       : TPT_TRY(flags_.job(library));
    TPT_TRY(spec::require_valid(job));
    TPT_TRY(spec::require_training(job, "placements are searched"));
    print_warnings(console, app::warnings_of(job));
    if (job.name.empty()) job.name = answers::default_name(job);
    TPT_TRY(energy_.count_energy(job, TPT_TRY(metrics::load_bill_rates(library)).pue));
    options_.scope = energy_.scope();
    return place_job(console, library, job, seen);
  }

 private:
  Result<void> check_words() const {
    if (hosts_ && !output_)
      return error("--hosts belongs to -o (nothing else names nodes); add -o DIR, or leave it out");
    if (choice_.row && std::ranges::none_of(from_, app::may_have_rows))
      return error(
          "--row belongs to a CSV table (nothing else has rows of that name); add --from "
          "FILE.csv, or leave it out");
    if (output_ && !output_->ends_with(".html")) TPT_TRY(make_folder(*output_));
    return {};
  }

  Result<int> place_job(tui::Console& console, const spec::Library& library, const spec::Job& job,
                        const app::Telemetry& telemetry) {
    options_.threads = threads_.count();
    options_.watch = tui::watch_on(console);
    TPT_TRY(require_lasting_faults(job, "leave out its time"));
    const app::PlacedJob placed = TPT_TRY(app::place_job(job, telemetry, from_, by_, options_));
    const answers::Document answer =
        advise::place_answer(job, placed.seen, placed.result, output_.has_value());
    if (output_)
      console.warn(TPT_TRY(
          app::write_placements(*output_, library, placed, job, telemetry, hosts_, answer)));
    print_answer(console, answer, format_, "placements");
    if (!interrupted()) return exit_ok;
    console.warn("triplepoint: interrupted; what is shown is the best found until then\n");
    return exit_interrupted;
  }

  JobFlags flags_;
  std::vector<std::string> from_;
  advise::TableChoice choice_;
  std::optional<std::string> hosts_, output_;
  advise::PlaceOptions options_;
  ScopeFlags energy_;
  std::string by_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"threads to simulate placements (default: all cores)"};
};

}  // namespace

std::unique_ptr<Command> make_place() {
  return std::make_unique<Place>();
}

}  // namespace triplepoint::cli
