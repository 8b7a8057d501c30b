// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"

#include "triplepoint/run/store.h"
#include "triplepoint/spec/job_checks.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/cli/flags/bill_flags.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/fault_flags.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/job_flags.h"
#include "triplepoint/cli/flags/like_flags.h"
#include "triplepoint/cli/flags/replay_flags.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/metrics/economics/bill_text.h"
#include "triplepoint/metrics/run/fault_report.h"
#include "triplepoint/metrics/run/results_json.h"
#include "triplepoint/report/perfetto.h"
#include "triplepoint/study/lifetime_use.h"
#include "triplepoint/tui/fault_text.h"
#include "triplepoint/tui/power_profile_text.h"
#include "triplepoint/tui/run_text.h"

namespace triplepoint::cli {
namespace {

class Simulate : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = flags_.arguments();
    const std::string group = "Duration and output";
    all.push_back({.names = "--duration",
                   .value = "TIME",
                   .help = "simulate a transient of this length from a cold start, as in 10min",
                   .group = group,
                   .store = into_time(duration_, 1 * unit::ms, longest_play)});
    all.push_back({.names = "--steps",
                   .value = "N",
                   .help = "simulate N training steps from a cold start",
                   .group = group,
                   .store = into_count(steps_, 1)});
    all.push_back({.names = "-o,--output",
                   .value = "NAME.run",
                   .help = "write the run",
                   .group = group,
                   .words = Words::files,
                   .store = into(output_)});
    all.push_back({.names = "--perfetto",
                   .value = "FILE",
                   .help = "write one detailed step as a trace for ui.perfetto.dev",
                   .group = group,
                   .words = Words::files,
                   .store = into(perfetto_)});
    all.push_back({.names = "--power-profile",
                   .help = "power swings, ramps and peaks of nodes, racks and the site over a "
                           "step, and the cost of smoothing them",
                   .group = group,
                   .store = into_switch(power_profile_)});
    all.push_back({.names = "--nodes-per-rack",
                   .value = "N",
                   .help = "of the power profile (default 4)",
                   .group = group,
                   .store = into_count(nodes_per_rack_, 1)});
    Argument format = format_.argument();
    format.group = group;
    all.push_back(std::move(format));
    for (Argument& argument : faults_.arguments())
      all.push_back(std::move(argument));
    for (Argument& argument : bill_.arguments())
      all.push_back(std::move(argument));
    for (Argument& argument : replay_.arguments())
      all.push_back(std::move(argument));
    for (Argument& argument : like_.arguments())
      all.push_back(std::move(argument));
    return all;
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
    Answer answer = play(job, rates);
    if (!over_time() && job.environment.faults.empty() && answer.metrics.step_time)
      answer.step_time = TPT_TRY(metrics::PredictionIntervals::load(library))
                             .step_time(job, *answer.metrics.step_time / unit::s);
    TPT_TRY(write_files(answer.run));
    if (format_.is_json())
      print_json(console, answer_json(job, answer, rates));
    else
      print(console, answer, rates);
    return exit_ok;
  }

 private:
  /// Output of a simulated job.
  struct Answer {
    run::Run run;
    metrics::Metrics metrics;
    std::optional<run::Run> fault_free;  // without faults
    std::optional<metrics::Interval> step_time;
    std::optional<metrics::Bill> bill;
    std::optional<metrics::RunLifetimeUse> lifetime_use;
    std::optional<metrics::PowerProfile> profile;

    const run::Run* without() const { return fault_free ? &*fault_free : nullptr; }
  };

  /// A measured step in place of a job.
  Result<int> play_again(tui::Console& console) const {
    TPT_TRY(flags_.require_no_job_but_cluster());
    const run::Run replayed = TPT_TRY(replay_.run(console, format_.is_json(), flags_.cluster()));
    TPT_TRY(write_files(replayed));
    return exit_ok;
  }

  Answer play(const spec::Job& job, const metrics::BillRates& rates) const {
    Answer answer;
    answer.run = sim::simulate(job, {.duration = duration_, .steps = steps_});
    answer.metrics = metrics::measure(answer.run);
    answer.fault_free = without_faults(job);
    const auto& [step_time, power] =
        std::pair(answer.metrics.step_time, answer.metrics.power_mean_w);
    if (bill_.given() && step_time && power)
      answer.bill = bill_.bill(job, rates, *step_time, *power * unit::W);
    answer.lifetime_use = study::run_lifetime_use(answer.run, answer.metrics);
    answer.profile = profile_of(answer.run);
    return answer;
  }

  static Json answer_json(const spec::Job& job, const Answer& answer,
                          const metrics::BillRates& rates) {
    Json json = metrics::results_json(answer.run, answer.metrics);
    if (answer.step_time) {
      json["step_time_low_s"] = answer.step_time->low;
      json["step_time_high_s"] = answer.step_time->high;
    }
    if (answer.lifetime_use)
      json["lifetime_use"] = metrics::lifetime_use_json(*answer.lifetime_use);
    if (answer.profile) json["power_profile"] = metrics::power_profile_json(*answer.profile);
    if (answer.bill) json["bill"] = metrics::bill_json(*answer.bill, rates);
    if (!job.environment.faults.empty())
      json["faults"] = metrics::faults_json(answer.run, answer.without());
    return json;
  }

  static void print(tui::Console& console, const Answer& answer, const metrics::BillRates& rates) {
    tui::print_run(console, answer.run, answer.metrics, answer.step_time);
    tui::print_faults(console, answer.run, answer.without());
    if (answer.lifetime_use) console.print("\n" + tui::lifetime_use_text(*answer.lifetime_use));
    if (answer.profile) tui::print_power_profile(console, *answer.profile);
    if (answer.bill) console.print("\nBill: " + metrics::bill_text(*answer.bill, rates) + "\n");
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
    if (output_) TPT_TRY(run::save(run, *output_));
    if (perfetto_) TPT_TRY(write_file_atomically(*perfetto_, report::perfetto_trace(run)));
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
