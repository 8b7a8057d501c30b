// SPDX-License-Identifier: Apache-2.0
// What should change while a job trains, and what not?

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/study/library_text.h"
#include "triplepoint/study/steering.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/result_text.h"

namespace triplepoint::cli {
namespace {

class Steer : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments()
        .group("Disturbance")
        .flag("--scenario", "NAME", "what goes wrong (default: the job's own faults, else all)",
              into(scenario_),
              {.choices = {"heat-wave", "dead-fan", "power-cap", "degraded-cooling", "slow-node",
                           "flapping-link", "noisy-host", "all"}})
        .flag("--fault", "WHAT",
              "custom fault, as in node=1,power=0.6@5min..20min (see simulate --help); repeatable",
              into(faults_), {.repeats = true})
        .flag("--duration", "TIME", "simulated time (default 30min)",
              into_time(options_.duration, shortest_play, longest_play))
        .group("What the controller may do")
        .flag("--objective", "GOAL",
              "quantity to minimize: time, energy, or energy x time (default edp)", into(goal_),
              {.choices = {"throughput", "energy", "edp"}})
        .flag("--interval", "TIME", "control interval (default 30s; at least two steps)",
              into_time(options_.interval, 1 * unit::s))
        .flag("--dwell", "TIME", "minimum time between actions (default 2min)",
              into_time(options_.rules.dwell))
        .flag("--moves", "N", "maximum number of actions (default 8)",
              into_count(options_.rules.most_moves, 0))
        .flag("--restarts", "N", "maximum number of actions that restart the job (default 1)",
              into_count(options_.rules.most_restarts, 0))
        .flag("--spares", "N", "number of spare nodes (default 0)",
              into_count(options_.moves.spares, 0))
        .flag("--restart-time", "TIME", "downtime of a restart (default: data/economics.toml)",
              into_time(restart_time_))
        .flag("--checkpoint-interval", "TIME", "restarts follow a checkpoint (default 10min)",
              into_time(options_.checkpoint_interval, 1 * unit::s))
        .toggle("--as-is", "do not start both sides at the best clock limit", as_is_)
        .group("Running job")
        .flag("--watch", "NAME.run", "advise from a recording, growing or finished",
              into(watch_.run), {.words = Words::files})
        .flag("--warm-up", "TIME",
              "warm-up time of the recording before the baseline (default 1min)",
              into_time(warm_up_))
        .flag("--hook", "COMMAND",
              "command that receives each advice as JSON on standard input; exit status 0: applied",
              into(watch_.hook), {.words = Words::files})
        .flag("--hook-timeout", "TIME", "time limit of the hook (default 30s)",
              into_time(hook_timeout_, 1 * unit::s))
        .group("Output")
        .flag("-o,--output", "FILE.html", "write a page with the time series", into(output_),
              {.words = Words::files})
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check_words());
    const spec::Library library = TPT_TRY(spec::require_library());
    options_.restart = restart_time_.value_or(TPT_TRY(metrics::load_bill_rates(library)).restart);
    options_.moves.may_restart = options_.rules.most_restarts > 0;
    options_.goal = *search::goal_named(goal_);
    options_.tune = !as_is_;
    options_.stopped = interrupted;
    if (!watch_.run.empty()) return watch(console, library);
    spec::Job job = TPT_TRY(flags_.job(library));
    if (output_) TPT_TRY(require_other_file(*output_, {flags_.file()}));
    TPT_TRY(add_faults(job, faults_));
    study::print_warnings(console, job);
    const auto all = TPT_TRY(study::steer_scenarios(console, job, scenario_, options_));
    if (output_)
      TPT_TRY(write_file_atomically(*output_, report::steer_page(job, all, options_.goal)));
    print(console, job, all);
    return interrupted() ? exit_interrupted : exit_ok;
  }

 private:
  Result<void> check_words() const {
    if (watch_.hook && watch_.run.empty())
      return error(
          "--hook belongs to --watch (a simulation has no job to act on); add "
          "--watch NAME.run");
    if (!watch_.run.empty() && (scenario_ || output_ || format_.is_csv()))
      return error(
          "--watch takes no scenario, page or CSV (what happens is what is recorded); "
          "leave them out");
    if (watch_.run.empty() && (warm_up_ || hook_timeout_))
      return error(
          "--warm-up and --hook-timeout belong to --watch (a simulation needs neither); add "
          "--watch NAME.run");
    return {};
  }

  Result<int> watch(tui::Console& console, const spec::Library& library) {
    if (flags_.cluster() || !flags_.require_no_job_but_cluster())
      watch_.job = TPT_TRY(flags_.job(library));
    if (watch_.job) study::print_warnings(console, *watch_.job);
    watch_.hook_timeout = hook_timeout_.value_or(watch_.hook_timeout);
    watch_.warm_up = warm_up_.value_or(watch_.warm_up);
    watch_.json = format_.is_json();
    watch_.steer = options_;
    TPT_TRY(study::watch_run(console, watch_));
    return interrupted() ? exit_interrupted : exit_ok;
  }

  void print(tui::Console& console, const spec::Job& job,
             const std::vector<advise::SteeredScenario>& all) const {
    const double margin = options_.rules.margin;
    const DataTable table = advise::scenarios_table(all, options_.goal, margin);
    if (format_.is_json())
      return print_json(console, advise::steering_json(job.name, all, options_));
    for (const advise::SteeredScenario& each : all)
      if (format_.is_table()) tui::print_decisions(console, each, margin);
    console.print(format_.is_csv() ? table_csv(table) : tui::table_text(table, console));
  }

  JobFlags flags_;
  std::string goal_ = "edp";
  FormatFlag format_{FormatFlag::Csv::yes};
  std::vector<std::string> faults_;
  std::optional<std::string> scenario_, output_;
  std::optional<Seconds> restart_time_, hook_timeout_, warm_up_;
  advise::SteerOptions options_;
  study::WatchOptions watch_;
  bool as_is_ = false;
};

}  // namespace

std::unique_ptr<Command> make_steer() {
  return std::make_unique<Steer>();
}

}  // namespace triplepoint::cli
