// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/store.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/job_flags.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/flags/simulate_flags.h"
#include "triplepoint/study/study_output.h"

namespace triplepoint::cli {
namespace {

class Simulate : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments()
        .group("Duration and output")
        .flag("--duration", "TIME",
              "simulate a transient of this length from a cold start, as in 10min",
              into_time(duration_, 1 * unit::ms, longest_play))
        .flag("--steps", "N", "simulate N training steps from a cold start", into_count(steps_, 1))
        .flag("-o,--output", "NAME.run", "write the run", into(output_), {.words = Words::files})
        .flag("--perfetto", "FILE", "write one detailed step as a trace for ui.perfetto.dev",
              into(perfetto_), {.words = Words::files})
        .toggle("--power-profile",
                "power swings, ramps and peaks of nodes, racks and the site over a "
                "step, and the cost of smoothing them",
                power_profile_)
        .flag("--nodes-per-rack", "N", "of the power profile (default 4)",
              into_count(nodes_per_rack_, 1))
        .add(format_.argument())
        .add(faults_.arguments())
        .add(bill_.arguments())
        .add(replay_.arguments())
        .add(like_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    TPT_TRY(replay_.check());
    if (replay_.given()) return play_again(console);
    const spec::Library library = TPT_TRY(spec::require_library());
    if (like_.given() && !flags_.require_no_job_but_cluster())
      return error("a job and --like were both given (the run contains its job); keep one of them");
    spec::Job job = TPT_TRY(like_.given() ? like_.job(library) : flags_.job(library));
    TPT_TRY(faults_.apply(job, over_time()));
    TPT_TRY(spec::require_valid(job));
    TPT_TRY(check_words());
    const metrics::BillRates rates = TPT_TRY(bill_.rates(library));
    study::JobResults results = simulate(job, rates);
    if (!over_time() && job.environment.faults.empty() && results.metrics.step_time)
      results.step_time = TPT_TRY(metrics::PredictionIntervals::load(library))
                              .step_time(job, *results.metrics.step_time / unit::s);
    TPT_TRY(write_files(results.run));
    format_.is_json() ? print_json(console, study::results_json(results))
                      : study::print_results(console, results);
    return exit_ok;
  }

 private:
  /// A measured step in place of a job.
  Result<int> play_again(tui::Console& console) const {
    TPT_TRY(flags_.require_no_job_but_cluster());
    const run::Run replayed = TPT_TRY(replay_.run(console, format_.is_json(), flags_.cluster()));
    TPT_TRY(write_files(replayed));
    return exit_ok;
  }

  study::JobResults simulate(const spec::Job& job, const metrics::BillRates& rates) const {
    study::JobResults results{.rates = rates};
    results.run = sim::simulate(job, {.duration = duration_, .steps = steps_});
    results.metrics = metrics::measure(results.run);
    results.fault_free = without_faults(job);
    if (bill_.given() && results.metrics.step_time && results.metrics.power_mean_w)
      results.bill = bill_.bill(job, results.rates, *results.metrics.step_time,
                                *results.metrics.power_mean_w * unit::W);
    results.lifetime_use = study::run_lifetime_use(results.run, results.metrics);
    results.profile = profile_of(results.run);
    return results;
  }

  bool over_time() const { return duration_ || steps_; }

  /// What a steady state with faults is held against.
  std::optional<run::Run> without_faults(spec::Job job) const {
    if (over_time() || job.environment.faults.empty()) return std::nullopt;
    job.environment.faults.clear();
    return sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false});
  }

  Result<void> check_words() const {
    if (duration_ && steps_)
      return error(
          "--duration and --steps were both given (each sets the simulated time); keep one");
    if (nodes_per_rack_ && !power_profile_)
      return error("--nodes-per-rack belongs to --power-profile (only it uses racks); add it");
    return bill_.check_alone();
  }

  std::optional<metrics::PowerProfile> profile_of(const run::Run& run) const {
    if (!power_profile_) return std::nullopt;
    metrics::PowerProfileOptions options;
    options.nodes_per_rack = nodes_per_rack_.value_or(options.nodes_per_rack);
    return metrics::power_profile(run, options);
  }

  Result<void> write_files(const run::Run& run) const {
    if (output_) TPT_TRY(require_other_file(*output_, {flags_.file()}));
    if (perfetto_) TPT_TRY(require_other_file(*perfetto_, {flags_.file()}));
    if (output_) TPT_TRY(run::save(run, *output_));
    if (perfetto_) TPT_TRY(write_file_atomically(*perfetto_, run::perfetto_trace(run)));
    return {};
  }

  JobFlags flags_;
  LikeFlags like_;
  ReplayFlags replay_;
  BillFlags bill_;
  FaultFlags faults_;
  FormatFlag format_;
  std::optional<Seconds> duration_;
  std::optional<int64_t> steps_, nodes_per_rack_;
  bool power_profile_ = false;
  std::optional<std::string> output_, perfetto_;
};

}  // namespace

std::unique_ptr<Command> make_simulate() {
  return std::make_unique<Simulate>();
}

}  // namespace triplepoint::cli
