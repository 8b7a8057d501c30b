// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/recording.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/app/machine_load.h"
#include "triplepoint/app/recorded_job.h"
#include "triplepoint/app/recording_plan.h"
#include "triplepoint/telemetry/recorder/child_process.h"
#include "triplepoint/telemetry/recorder/node_gathering.h"
#include "triplepoint/telemetry/recorder/recorder.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::app {
namespace {

using telemetry::ChildProcess;
using telemetry::LaunchEnvironment;
using telemetry::NodeGathering;
using telemetry::Recorder;
using telemetry::SensorOpening;

constexpr Seconds turn_length = 100 * unit::ms;
constexpr Seconds longest_listing = 5 * unit::s;
constexpr int64_t longest_wait_between_looks = 300;  // turns
constexpr int incomplete_recording = 1;              // exit code
// Ranks of a launch start within seconds; one that is missing longer has not been started at all.
constexpr int most_turns_for_others = 300;

class Recording {
 public:
  Recording(const Watch& watch, const RecordingRequest& request)
      : watch_(watch), request_(request) {}

  Result<RecordedCommand> run() {
    const telemetry::SignalsForCommand signals;
    environment_ = telemetry::read_launch_environment(telemetry::process_variable);
    NodeGathering gathering = TPT_TRY(NodeGathering::join(
        environment_, getppid(), telemetry::shared_memory_folder(telemetry::process_variable)));
    const int code =
        gathering.leads() ? TPT_TRY(lead(gathering, signals)) : TPT_TRY(follow(gathering, signals));
    return RecordedCommand{code, std::move(summary_)};
  }

 private:
  /// Another rank of this node records; this one only runs its command.
  Result<int> follow(const NodeGathering& gathering, const telemetry::SignalsForCommand& signals) {
    auto child = ChildProcess::start(request_.command,
                                     telemetry::recording_variables(gathering.marks()), signals);
    if (!child) {
      watch_.say(child.error().what);
      return telemetry::start_failed(request_.command[0]);
    }
    while (true)
      if (const auto code = child->wait_for(unit::h)) return *code;
  }

  Result<int> lead(const NodeGathering& gathering, const telemetry::SignalsForCommand& signals) {
    const auto opening = TPT_TRY(open_sensors(signals));
    const Path target = recording_file(request_, environment_);
    if (const auto old = TPT_TRY(telemetry::keep_old_recording(target)))
      watch_.say(fmt::format("the old {} is now {}", target.string(), old->string()));
    const auto recorder = TPT_TRY(Recorder::begin(
        recording_plan(request_, environment_, target, gathering.marks(), opening), {}));
    const auto variables = telemetry::recording_variables(gathering.marks());
    note_missing_marks(*recorder, variables);
    auto child = ChildProcess::start(request_.command, variables, signals);
    if (!child) {
      watch_.say(child.error().what);
      std::error_code ignored;
      std::filesystem::remove(target, ignored);
      std::filesystem::remove(run::tail_of(target), ignored);
      return telemetry::start_failed(request_.command[0]);
    }
    command_ = child->id();
    const auto begin = machine_seconds();
    const double own = own_cpu_seconds();
    const int code = watch(*recorder, *child, gathering);
    wait_for_others(*recorder, gathering, signals);
    if (begin) note_busy_machine(*recorder, *begin, own_cpu_seconds() - own);
    const bool is_whole = finish(*recorder, target);
    return request_.strict && !is_whole && code == 0 ? incomplete_recording : code;
  }

  /// The command does not wait for drivers; only words for GPUs are compared with those there are.
  Result<std::shared_ptr<SensorOpening>> open_sensors(
      const telemetry::SignalsForCommand& signals) const {
    auto opening = std::make_shared<SensorOpening>(request_.sensors);
    if (request_.sensors.devices.empty()) return opening;
    bool wants_end = false;
    opening->wait_for_list(longest_listing,
                           [&] { return wants_end = wants_end || signals.take_end(); });
    if (wants_end) return error("ended by a signal before the command was started");
    if (const auto unknown = opening->unknown_device()) return error(unknown->what);
    return opening;
  }

  /// Ranks of this node.
  size_t num_expected() const { return static_cast<size_t>(environment_.local_size.value_or(1)); }

  /// Ranks that the command has started, as torchrun does, some seconds after its begin.
  void look_for_ranks(Recorder& recorder) {
    if (all_processes_known_ || turns_ < next_look_) return;
    next_look_ = turns_ + std::min(turns_, longest_wait_between_looks);
    const auto processes = telemetry::ranks_below(command_, environment_);
    if (processes.size() <= processes_seen_) return;
    processes_seen_ = processes.size();
    recorder.know_processes(processes);
    const auto local_size = processes.front().launch.local_size.value_or(INT32_MAX);
    all_processes_known_ = processes_seen_ >= static_cast<size_t>(local_size);
  }

  /// One look of the thread that waits: marks, and every second samples and the disk.
  void turn(Recorder& recorder, const NodeGathering& gathering) {
    constexpr int64_t turns_per_look = 10;
    if (turns_++ % turns_per_look == 0 && ranks_seen_ < num_expected()) {
      const auto ranks = gathering.ranks();
      recorder.know_ranks(ranks);
      ranks_seen_ = ranks.size();
    }
    look_for_ranks(recorder);
    if (const auto done = recorder.turn(); !done)
      watch_.say(done.error().what + " (the recording goes on when there is room)");
  }

  int watch(Recorder& recorder, ChildProcess& child, const NodeGathering& gathering) {
    while (true) {
      const auto code = child.wait_for(turn_length);
      turn(recorder, gathering);
      if (code) return *code;
    }
  }

  /// Our own command has ended; those of the node's other ranks may still run.
  void wait_for_others(Recorder& recorder, const NodeGathering& gathering,
                       const telemetry::SignalsForCommand& signals) {
    for (int turns = 0; !signals.take_end(); ++turns) {
      const bool all_came =
          gathering.ranks().size() >= num_expected() || turns >= most_turns_for_others;
      if (all_came && gathering.others_have_left()) return;
      usleep(static_cast<useconds_t>(turn_length / unit::us));
      turn(recorder, gathering);
    }
  }

  void note_missing_marks(Recorder& recorder,
                          const std::map<std::string, std::string>& variables) const {
    constexpr const char* library = "TRIPLEPOINT_MARK_LIBRARY";
    if (variables.count(library) > 0 || telemetry::process_variable(library)) return;
    const std::string note = fmt::format(
        "steps cannot be marked: libtriplepoint_mark.so is not in the lib folder beside this "
        "program (an incomplete installation); install it, or name its file in {}",
        library);
    recorder.note(note);
    if (!request_.quiet) watch_.say(note);
  }

  /// Ranks that a launcher has started beside this one are not among our children.
  void note_busy_machine(Recorder& recorder, const MachineSeconds& begin, double own) const {
    const auto end = machine_seconds();
    if (environment_.rank || !end) return;
    const auto note = busy_machine_note(begin, *end, own);
    if (!note) return;
    recorder.note(*note);
    if (!request_.quiet) watch_.say(*note);
  }

  /// False if some of the recording is lost.
  bool finish(Recorder& recorder, const Path& target) {
    const auto summary = recorder.finish();
    if (!summary) {
      watch_.say(summary.error().what);
      watch_.say(fmt::format(
          "{:.1f} s are lost; what was recorded before is in {} and {}, which every command reads "
          "as they are",
          recorder.lost_without_end() / unit::s, target.string(), run::tail_of(target).string()));
      return false;
    }
    if (request_.job)
      if (const auto described = app::describe_recording(target, *request_.job); !described)
        watch_.say(described.error().what + "; the recording has no job");
    if (!request_.quiet) summary_ = telemetry::text_of(*summary, target.string());
    return summary->dropped_values == 0;
  }

  const Watch& watch_;
  const RecordingRequest& request_;
  size_t ranks_seen_ = 0, processes_seen_ = 0;
  int64_t turns_ = 0, next_look_ = 2, command_ = 0;
  bool all_processes_known_ = false;
  std::string summary_;
  LaunchEnvironment environment_;
};

}  // namespace

Result<RecordedCommand> record_command(const Watch& watch, const RecordingRequest& request) {
  return Recording(watch, request).run();
}

}  // namespace triplepoint::app
