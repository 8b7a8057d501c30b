// SPDX-License-Identifier: Apache-2.0
// What should change while a job trains, and what not?
#include "triplepoint/advise/steer.h"

#include <chrono>
#include <thread>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/library_text.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/store/growing_run.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::cli {
namespace {

Result<void> require_steerable(const spec::Job& job) {
  TPT_TRY(spec::require_valid(job));
  TPT_TRY(spec::require_training(job, "jobs are steered"));
  TPT_TRY(flags::require_power(job, "steer"));
  if (job.environment.faults.empty())
    return error(
        "the job has no faults (nothing would disturb it); add one, as in --fault "
        "inlet=+12@5min..20min");
  if (workload::build_work_graph(job).memory.fits()) return {};
  return error(
      "the job does not fit in memory (nothing could be steered); triplepoint simulate "
      "shows where it goes");
}

/// Of a recording; its baseline begins afterwards.
constexpr Seconds warm_up = 1 * unit::min;

/// Waits for more of the recording; ends at once when asked to.
void wait_a_moment() {
  for (int i = 0; i < 10 && !interrupted(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

class Steer : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments()
        .add(faults_.arguments())
        .group("Disturbance")
        .flag("--duration", "TIME", "simulated time (default 30min)",
              into_time(options_.duration, shortest_play, longest_play))
        .group("What the controller may do")
        .flag("--interval", "TIME", "control interval (default 30s; at least two steps)",
              into_time(options_.interval, 1 * unit::s))
        .flag("--restarts", "N", "maximum number of actions that restart the job (default 1)",
              into_count(options_.rules.most_restarts, 0))
        .flag("--spares", "N", "number of spare nodes (default 0)",
              into_count(options_.moves.spares, 0))
        .flag("--restart-time", "TIME", "downtime of a restart (default: data/economics.toml)",
              into_time(restart_time_))
        .flag("--checkpoint-interval", "TIME", "restarts follow a checkpoint (default 10min)",
              into_time(options_.checkpoint_interval, 1 * unit::s))
        .group("Running job")
        .flag("--watch", "NAME.run", "alarms from a recording, growing or finished", into(watched_),
              {.words = Words::files})
        .add(energy_.arguments())
        .group("Output")
        .add(threads_.argument())
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    const ThreadLimit limit = threads_.limit();
    TPT_TRY(check_words());
    const spec::Library library = TPT_TRY(spec::require_library());
    if (watched_)
      TPT_TRY(watch(console, library));
    else
      TPT_TRY(simulate(console, library));
    return interrupted() ? exit_interrupted : exit_ok;
  }

 private:
  Result<void> check_words() const {
    if (watched_ && (faults_.given() || format_.is_csv()))
      return error(
          "--watch takes no --fault and writes no CSV (what happens is what is recorded); leave "
          "them out");
    return {};
  }

  Result<void> simulate(tui::Console& console, const spec::Library& library) {
    spec::Job job = TPT_TRY(flags_.job(library));
    TPT_TRY(faults_.apply(job, true));
    print_warnings(console, app::warnings_of(job));
    TPT_TRY(require_steerable(job));
    for (const spec::Fault& fault : job.environment.faults)
      if (fault.begin >= options_.duration)
        return error(
            "the fault {} begins after the end (--duration {}); simulate "
            "longer, or let it begin earlier",
            spec::to_text(fault), to_text(options_.duration));
    const metrics::BillRates rates = TPT_TRY(metrics::load_bill_rates(library));
    options_.restart = restart_time_.value_or(rates.restart);
    options_.scope = energy_.scope();
    TPT_TRY(energy_.count_energy(job, rates.pue));
    options_.moves.may_restart = options_.rules.most_restarts > 0;
    const auto looks = as_size(options_.duration / options_.interval + 1);
    options_.watch = tui::watch_on(console);
    options_.watch.begin("Simulating both sides", looks);
    print_answer(console, advise::steer_answer(job, advise::steer(job, options_)), format_);
    return {};
  }

  /// Looks at a run window by window: what is there at once, what comes as it comes, until the
  /// recording ends or Ctrl-C.
  Result<void> watch(tui::Console& console, const spec::Library& library) {
    std::optional<advise::Watcher> watcher;
    std::optional<Instant> next;
    for (bool growing = true; growing && !interrupted();) {
      // Asked before the file is read: what comes later is seen by the next round.
      growing = path_exists(run::tail_of(*watched_));
      const run::Run run = TPT_TRY(run::load(*watched_));
      if (!watcher) watcher.emplace(TPT_TRY(watched_job(library, run)));
      look(console, run, *watcher, next);
      if (growing) wait_a_moment();
    }
    if (interrupted() || (watcher && watcher->has_baseline())) return {};
    return error(
        "{}: no window of {} had whole steps with clock, power and temperature of every GPU "
        "(nothing was watched); record for longer and with all sensors, or take another --interval",
        *watched_, to_text(options_.interval));
  }

  Result<spec::Job> watched_job(const spec::Library& library, const run::Run& run) const {
    std::optional<spec::Job> job;
    if (run.manifest.job) job = TPT_TRY(flags_.with_own_runs(*run.manifest.job));
    if (flags_.cluster() || flags_.name_a_job()) job = TPT_TRY(flags_.job(library));
    if (!job)
      return error(
          "{}: the run has no job (what explains a reading depends on it); record with --job, or "
          "name the job here as well",
          *watched_);
    TPT_TRY(spec::require_valid(*job));
    TPT_TRY(spec::require_training(*job, "jobs are watched"));
    return *job;
  }

  /// Every whole window that is there from `next` on.
  void look(tui::Console& console, const run::Run& run, advise::Watcher& watcher,
            std::optional<Instant>& next) const {
    if (run.steps.empty()) return;
    if (!next) next = run.steps.front().begin + warm_up;
    for (; *next + options_.interval <= run.steps.back().end && !interrupted();
         next = *next + options_.interval) {
      const auto alarm = watcher.look(run, {*next, *next + options_.interval});
      if (!alarm) continue;
      console.print(format_.is_json() ? json_text(advise::alarm_json(*alarm), -1) + "\n"
                                      : advise::alarm_text(*alarm));
      console.flush();
    }
  }

  JobFlags flags_;
  ScopeFlags energy_;
  ThreadsFlag threads_{"threads to simulate (default: all cores)"};
  FormatFlag format_{FormatFlag::Csv::yes};
  FaultFlags faults_;
  std::optional<std::string> watched_;
  std::optional<Seconds> restart_time_;
  advise::SteerOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_steer() {
  return std::make_unique<Steer>();
}

}  // namespace triplepoint::cli
