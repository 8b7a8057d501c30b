// SPDX-License-Identifier: Apache-2.0
// What should change while a job trains, and what not?
#include "triplepoint/advise/steer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/fault_text.h"
#include "triplepoint/spec/job_checks.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/advise/steer_scenarios.h"
#include "triplepoint/advise/steer_tables.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/job_flags.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/report/pages/steer_page.h"
#include "triplepoint/study/steer_watch.h"
#include "triplepoint/tui/data_table_text.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/tui/steer_decisions.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::cli {
namespace {

using advise::Scenario;
using advise::SteerOptions;

class Steer : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = flags_.arguments();
    for (auto part : {&Steer::scenario_arguments, &Steer::rule_arguments, &Steer::watch_arguments,
                      &Steer::output_arguments})
      for (Argument& argument : (this->*part)())
        all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check_words());
    const spec::Library library = TPT_TRY(spec::require_library());
    const SteerOptions options = TPT_TRY(steer_options(library));
    if (watch_) return watch(console, library, options);
    spec::Job job = TPT_TRY(flags_.job(library));
    TPT_TRY(add_faults(job));
    TPT_TRY(require_playable(job));
    const std::vector<Scenario> scenarios = TPT_TRY(chosen_scenarios(job, options));
    std::vector<advise::SteeredScenario> all;
    for (const Scenario& scenario : scenarios) {
      if (interrupted()) break;
      all.push_back(play(console, job, scenario, options));
    }
    TPT_TRY(print(console, job, all, options));
    return interrupted() ? exit_interrupted : exit_ok;
  }

 private:
  std::vector<Argument> scenario_arguments() {
    const std::string group = "Disturbance";
    return {
        {.names = "--scenario",
         .value = "NAME",
         .help = "heat-wave, dead-fan, power-cap, degraded-cooling, slow-node, flapping-link, "
                 "noisy-host, or all (default: the job's own faults, else all)",
         .group = group,
         .store = into(scenario_)},
        {.names = "--fault",
         .value = "WHAT",
         .help =
             "custom fault, as in node=1,power=0.6@5min..20min (see simulate --help); repeatable",
         .group = group,
         .repeats = true,
         .store = into(faults_)},
        {.names = "--duration",
         .value = "TIME",
         .help = "simulated time (default 30min)",
         .group = group,
         .store = into_time(duration_, shortest_play, longest_play)}};
  }

  std::vector<Argument> rule_arguments() {
    const std::string group = "What the controller may do";
    return {{.names = "--objective",
             .value = "GOAL",
             .help = "quantity to minimize: time, energy, or energy x time (default edp)",
             .group = group,
             .choices = {"throughput", "energy", "edp"},
             .store = into(goal_)},
            {.names = "--interval",
             .value = "TIME",
             .help = "control interval (default 30s; at least two steps)",
             .group = group,
             .store = into_time(interval_, 1 * unit::s)},
            {.names = "--dwell",
             .value = "TIME",
             .help = "minimum time between actions (default 2min)",
             .group = group,
             .store = into_time(dwell_)},
            {.names = "--moves",
             .value = "N",
             .help = "maximum number of actions (default 8)",
             .group = group,
             .store = into_count(moves_, 0)},
            {.names = "--restarts",
             .value = "N",
             .help = "maximum number of actions that restart the job (default 1)",
             .group = group,
             .store = into_count(restarts_, 0)},
            {.names = "--spares",
             .value = "N",
             .help = "number of spare nodes (default 0)",
             .group = group,
             .store = into_count(spares_, 0)},
            {.names = "--restart-time",
             .value = "TIME",
             .help = "downtime of a restart (default: data/economics.toml)",
             .group = group,
             .store = into_time(restart_time_)},
            {.names = "--checkpoint-interval",
             .value = "TIME",
             .help = "restarts follow a checkpoint (default 10min)",
             .group = group,
             .store = into_time(checkpoint_interval_, 1 * unit::s)},
            {.names = "--as-is",
             .help = "do not start both sides at the best clock limit",
             .group = group,
             .store = into_switch(as_is_)}};
  }

  std::vector<Argument> watch_arguments() {
    const std::string group = "Running job";
    return {
        {.names = "--watch",
         .value = "NAME.run",
         .help = "advise from a recording, growing or finished",
         .group = group,
         .words = Words::files,
         .store = into(watch_)},
        {.names = "--warm-up",
         .value = "TIME",
         .help = "warm-up time of the recording before the baseline (default 1min)",
         .group = group,
         .store = into_time(warm_up_)},
        {.names = "--hook",
         .value = "COMMAND",
         .help =
             "command that receives each advice as JSON on standard input; exit status 0: applied",
         .group = group,
         .store = into(hook_)},
        {.names = "--hook-timeout",
         .value = "TIME",
         .help = "time limit of the hook (default 30s)",
         .group = group,
         .store = into_time(hook_timeout_, 1 * unit::s)}};
  }

  std::vector<Argument> output_arguments() {
    const std::string group = "Output";
    return {{.names = "-o,--output",
             .value = "FILE.html",
             .help = "write a page with the time series",
             .group = group,
             .words = Words::files,
             .store = into(output_)},
            format_.argument(group)};
  }

  Result<void> check_words() const {
    if (hook_ && !watch_)
      return error(
          "--hook belongs to --watch (a simulation has no job to act on); add "
          "--watch NAME.run");
    if (watch_ && (scenario_ || output_ || format_.is_csv()))
      return error(
          "--watch takes no scenario, page or CSV (what happens is what is recorded); "
          "leave them out");
    if (!watch_ && (warm_up_ || hook_timeout_))
      return error(
          "--warm-up and --hook-timeout belong to --watch (a simulation needs neither); add "
          "--watch NAME.run");
    return {};
  }

  Result<SteerOptions> steer_options(const spec::Library& library) const {
    SteerOptions options;
    const metrics::BillRates rates = TPT_TRY(metrics::load_bill_rates(library));
    options.restart = restart_time_.value_or(rates.restart);
    options.duration = duration_.value_or(options.duration);
    options.interval = interval_.value_or(options.interval);
    options.checkpoint_interval = checkpoint_interval_.value_or(options.checkpoint_interval);
    options.rules.dwell = dwell_.value_or(options.rules.dwell);
    options.rules.most_moves = static_cast<int>(moves_.value_or(options.rules.most_moves));
    options.rules.most_restarts = static_cast<int>(restarts_.value_or(options.rules.most_restarts));
    options.moves.spares = static_cast<int>(spares_.value_or(0));
    options.moves.may_restart = options.rules.most_restarts > 0;
    options.goal = *search::goal_named(goal_);
    options.tune = !as_is_;
    options.stopped = [] { return interrupted(); };
    return options;
  }

  Result<void> add_faults(spec::Job& job) const {
    for (const std::string& text : faults_) {
      Result<spec::Fault> fault = spec::parse_fault(text);
      if (!fault) return error("--fault " + text + ": " + fault.error().what);
      job.environment.faults.push_back(*fault);
    }
    return {};
  }

  static Result<void> require_playable(const spec::Job& job) {
    TPT_TRY(spec::require_valid(job));
    TPT_TRY(spec::require_training(job, "jobs are steered"));
    if (workload::build_work_graph(job).memory.fits()) return {};
    return error(
        "the job does not fit in memory (nothing could be steered); triplepoint simulate "
        "shows where it goes");
  }

  Result<std::vector<Scenario>> chosen_scenarios(const spec::Job& job,
                                                 const SteerOptions& options) const {
    const auto& own = job.environment.faults;
    if (!scenario_ && !own.empty())
      return std::vector<Scenario>{{"own-faults", "what the job says goes wrong", own}};
    if (!own.empty())
      return error(
          "the job has its own faults (a scenario would be a second story); leave "
          "--scenario out");
    if (scenario_.value_or("all") == "all") return advise::scenarios_for(job, options.duration);
    return std::vector<Scenario>{
        TPT_TRY(advise::scenario_named(job, options.duration, *scenario_))};
  }

  static advise::SteeredScenario play(tui::Console& console, const spec::Job& job,
                                      const Scenario& scenario, SteerOptions options) {
    const auto looks = static_cast<std::size_t>(options.duration / options.interval + 1);
    tui::Progress progress(console, "Simulating " + scenario.name, looks);
    options.advance = [&] { progress.advance(); };
    spec::Job disturbed = job;
    disturbed.environment.faults = scenario.faults;
    return {scenario.name, scenario.about, advise::steer(disturbed, options)};
  }

  Result<int> watch(tui::Console& console, const spec::Library& library,
                    const SteerOptions& options) const {
    study::WatchOptions watch;
    watch.run = *watch_;
    const bool tells_job = flags_.cluster() || !flags_.require_no_job_but_cluster();
    if (tells_job) watch.job = TPT_TRY(flags_.job(library));
    watch.hook = hook_;
    watch.hook_timeout = hook_timeout_.value_or(watch.hook_timeout);
    watch.warm_up = warm_up_.value_or(watch.warm_up);
    watch.json = format_.is_json();
    watch.steer = options;
    TPT_TRY(study::watch_run(console, watch));
    return interrupted() ? exit_interrupted : exit_ok;
  }

  Result<void> print(tui::Console& console, const spec::Job& job,
                     const std::vector<advise::SteeredScenario>& all,
                     const SteerOptions& options) const {
    const double margin = options.rules.margin;
    if (output_) TPT_TRY(write_page(job, all, options));
    if (format_.is_csv()) {
      console.print(table_csv(advise::scenarios_table(all, options.goal, margin)));
      return {};
    }
    if (format_.is_json()) {
      Json json = {{"schema", 1},
                   {"job", job.name},
                   {"duration_s", options.duration / unit::s},
                   {"objective", goal_}};
      json["scenarios"] = Json::array();
      for (const advise::SteeredScenario& each : all)
        json["scenarios"].push_back(advise::scenario_json(each, options.goal, margin));
      print_json(console, json);
      return {};
    }
    for (const advise::SteeredScenario& each : all)
      tui::print_decisions(console, each, margin);
    console.print(tui::table_text(advise::scenarios_table(all, options.goal, margin), console));
    return {};
  }

  Result<void> write_page(const spec::Job& job, const std::vector<advise::SteeredScenario>& all,
                          const SteerOptions& options) const {
    std::vector<report::SteerStory> stories;
    stories.reserve(all.size());
    for (const advise::SteeredScenario& each : all)
      stories.push_back({each.name, each.about, &each.outcome});
    return write_file_atomically(*output_, report::steer_page(job, stories, options.goal));
  }

  JobFlags flags_;
  std::string goal_ = "edp";
  FormatFlag format_{FormatFlag::Csv::yes};
  std::vector<std::string> faults_;
  std::optional<std::string> scenario_, watch_, hook_, output_;
  std::optional<Seconds> duration_, interval_, dwell_, restart_time_, checkpoint_interval_,
      hook_timeout_, warm_up_;
  std::optional<int64_t> moves_, restarts_, spares_;
  bool as_is_ = false;
};

}  // namespace

std::unique_ptr<Command> make_steer() {
  return std::make_unique<Steer>();
}

}  // namespace triplepoint::cli
