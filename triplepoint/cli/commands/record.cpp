// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/base/text.h"
#include "triplepoint/base/version.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/sensor_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/study/recorded_job.h"
#include "triplepoint/telemetry/recorder/child_process.h"
#include "triplepoint/telemetry/recorder/node_gathering.h"
#include "triplepoint/telemetry/recorder/recorder.h"
#include "triplepoint/telemetry/recorder/recording_setup.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

using telemetry::ChildProcess;
using telemetry::LaunchEnvironment;
using telemetry::NodeGathering;
using telemetry::Recorder;

constexpr Seconds turn_length = 100 * unit::ms;
constexpr Seconds shortest_interval = 20 * unit::ms;
// Ranks of a launch start within seconds; one that is missing longer has not been started at all.
constexpr int most_turns_for_others = 300;

class Record : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = {
        {.names = "COMMAND",
         .help = "the training command and its flags, after --",
         .words = Words::files,
         .required = true,
         .repeats = true,
         .store = into(command_)},
        {.names = "-o,--output",
         .value = "NAME.run",
         .help = "the recording; on several nodes each writes NAME.host.run (default: run-JOB.run "
                 "or run-DATE.run)",
         .words = Words::files,
         .store = into(output_)},
        {.names = "--interval",
         .value = "TIME",
         .help = "sampling interval, 20 ms or more (default: 100 ms, or half of a sensor's update "
                 "period)",
         .store = into_quantity(interval_)},
        {.names = "--warmup",
         .value = "N",
         .help = "warm-up steps that are not measured (default: 3)",
         .store = into(warmup_)},
        {.names = "--steps",
         .value = "N",
         .help = "measured steps after the warm-up, or all (default: 10)",
         .store = into(steps_)},
        {.names = "--job",
         .value = "FILE",
         .help = "job of the command (job.toml, NeMo YAML, Megatron arguments); adds model, layout "
                 "and FLOPs to the recording",
         .words = Words::files,
         .store = into(job_file_)},
        {.names = "-q,--quiet", .help = "do not print a summary", .store = into_switch(quiet_)}};
    for (Argument& argument : sensors_.arguments())
      all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check());
    const telemetry::SignalsForCommand signals;
    environment_ = telemetry::read_launch_environment(telemetry::process_variable);
    NodeGathering gathering = TPT_TRY(NodeGathering::join(
        environment_, getppid(), telemetry::shared_memory_folder(telemetry::process_variable)));
    return gathering.leads() ? lead(console, gathering, signals)
                             : follow(console, gathering, signals);
  }

 private:
  Result<void> check() {
    if (interval_ && *interval_ < shortest_interval)
      return error(fmt::format(
          "--interval {} ms is too short (sensors update at most every 20 ms); use 20 ms or more",
          *interval_ / unit::ms));
    if (warmup_ && *warmup_ < 0) return error("--warmup below 0 (it counts steps); give 0 or more");
    if (steps_ && *steps_ != "all" && parse_count(*steps_).value_or(0) < 1)
      return error(
          fmt::format("--steps {} is no number of steps (10, or all); give one above 0", *steps_));
    if (!job_file_) return {};
    const spec::Library library = TPT_TRY(spec::require_library());
    job_ = TPT_TRY(formats::read_job(library, *job_file_));
    return {};
  }

  telemetry::StepWindow step_window() const {
    telemetry::StepWindow window;
    if (warmup_) window.warmup = *warmup_;
    if (steps_ && *steps_ == "all") window.steps.reset();
    if (steps_ && *steps_ != "all") window.steps = parse_count(*steps_).value_or(1);
    return window;
  }

  Path file() const {
    const Path wanted(output_ ? *output_ : telemetry::default_recording_name(environment_));
    return telemetry::is_one_of_many_nodes(environment_)
               ? telemetry::file_of_node(wanted, telemetry::this_host(environment_))
               : wanted;
  }

  /// Another rank of this node records; this one only runs its command.
  Result<int> follow(tui::Console& console, const NodeGathering& gathering,
                     const telemetry::SignalsForCommand& signals) {
    auto child =
        ChildProcess::start(command_, telemetry::recording_variables(gathering.marks()), signals);
    if (!child) {
      console.warn("triplepoint: " + child.error().what + "\n");
      return telemetry::start_failed(command_[0]);
    }
    while (true)
      if (const auto code = child->wait_for(unit::h)) return *code;
  }

  Result<int> lead(tui::Console& console, const NodeGathering& gathering,
                   const telemetry::SignalsForCommand& signals) {
    telemetry::Sensors sensors = TPT_TRY(telemetry::open_sensors(sensors_.options()));
    const Path target = file();
    if (const auto old = TPT_TRY(telemetry::keep_old_recording(target)))
      console.warn(
          fmt::format("triplepoint: the old {} is now {}\n", target.string(), old->string()));
    const auto recorder =
        TPT_TRY(Recorder::begin(plan(target, gathering, sensors), std::move(sensors.all)));
    auto child =
        ChildProcess::start(command_, telemetry::recording_variables(gathering.marks()), signals);
    if (!child) {
      console.warn("triplepoint: " + child.error().what + "\n");
      std::error_code ignored;
      std::filesystem::remove(target, ignored);
      std::filesystem::remove(run::tail_of(target), ignored);
      return telemetry::start_failed(command_[0]);
    }
    const int code = watch(console, *recorder, *child, gathering);
    wait_for_others(console, *recorder, gathering, signals);
    finish(console, *recorder, target);
    return code;
  }

  telemetry::RecordingPlan plan(const Path& target, const NodeGathering& gathering,
                                const telemetry::Sensors& sensors) const {
    telemetry::RecordingPlan plan;
    plan.file = target;
    plan.steps = step_window();
    plan.name = target.stem().string();
    plan.producer = program_version();
    plan.host = telemetry::this_host(environment_);
    plan.marks = gathering.marks();
    plan.gaps = sensors.gaps;
    if (interval_) plan.sampling.interval = *interval_;
    plan.sampling.follow_sensors = !interval_;
    plan.facts["command"] = joined(command_);
    if (!environment_.launcher.empty()) plan.facts["launcher"] = environment_.launcher;
    if (!environment_.job.empty()) plan.facts["launch"] = environment_.job;
    if (environment_.world_size)
      plan.facts["world_size"] = std::to_string(*environment_.world_size);
    return plan;
  }

  /// Ranks of this node.
  size_t num_expected() const { return static_cast<size_t>(environment_.local_size.value_or(1)); }

  /// One look of the thread that waits: marks, and every second samples and the disk.
  void turn(tui::Console& console, Recorder& recorder, const NodeGathering& gathering) {
    constexpr int64_t turns_per_look = 10;
    if (turns_++ % turns_per_look == 0 && ranks_seen_ < num_expected()) {
      const auto ranks = gathering.ranks();
      recorder.know_ranks(ranks);
      ranks_seen_ = ranks.size();
    }
    if (const auto done = recorder.turn(); !done)
      console.warn(fmt::format("triplepoint: {} (the recording goes on when there is room)\n",
                               done.error().what));
  }

  int watch(tui::Console& console, Recorder& recorder, ChildProcess& child,
            const NodeGathering& gathering) {
    while (true) {
      const auto code = child.wait_for(turn_length);
      turn(console, recorder, gathering);
      if (code) return *code;
    }
  }

  /// Our own command has ended; those of the node's other ranks may still run.
  void wait_for_others(tui::Console& console, Recorder& recorder, const NodeGathering& gathering,
                       const telemetry::SignalsForCommand& signals) {
    for (int turns = 0; !signals.take_end(); ++turns) {
      const bool all_came =
          gathering.ranks().size() >= num_expected() || turns >= most_turns_for_others;
      if (all_came && gathering.others_have_left()) return;
      usleep(static_cast<useconds_t>(turn_length / unit::us));
      turn(console, recorder, gathering);
    }
  }

  void finish(tui::Console& console, Recorder& recorder, const Path& target) const {
    const auto summary = recorder.finish();
    if (!summary) {
      console.warn(
          fmt::format("triplepoint: {}\ntriplepoint: what was recorded is in {} and {}, "
                      "which every command reads as they are\n",
                      summary.error().what, target.string(), run::tail_of(target).string()));
      return;
    }
    if (job_)
      if (const auto described = study::describe_recording(target, *job_); !described)
        console.warn(
            fmt::format("triplepoint: {}; the recording has no job\n", described.error().what));
    if (!quiet_) console.warn(telemetry::text_of(*summary, target.string()));
  }

  std::vector<std::string> command_;
  std::optional<std::string> output_, steps_, job_file_;
  std::optional<spec::Job> job_;
  std::optional<Seconds> interval_;
  std::optional<int64_t> warmup_;
  SensorFlags sensors_;
  bool quiet_ = false;
  size_t ranks_seen_ = 0;
  int64_t turns_ = 0;
  LaunchEnvironment environment_;
};

}  // namespace

std::unique_ptr<Command> make_record() {
  return std::make_unique<Record>();
}

}  // namespace triplepoint::cli
