// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/recording.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/recorder/child_process.h"
#include "triplepoint/telemetry/recorder/launch_environment.h"
#include "triplepoint/telemetry/recorder/node_gathering.h"
#include "triplepoint/telemetry/recorder/recorder.h"

namespace triplepoint::app {
namespace {

using telemetry::ChildProcess;
using telemetry::NodeGathering;
using telemetry::Recorder;

constexpr Seconds turn_length = 100 * unit::ms;
constexpr Seconds longest_listing = 5 * unit::s;
constexpr int64_t longest_wait_between_looks = 300;  // turns
constexpr int incomplete_recording = 1;              // exit code
// Ranks of a launch start within seconds; one that is missing longer has not been started at all.
constexpr int most_turns_for_others = 300;

/// Where a recording goes: as asked, else by the launch or the date; of several nodes each has its
/// own file.
Path recording_file(const RecordingRequest& request,
                    const telemetry::LaunchEnvironment& environment) {
  const Path wanted(request.output ? *request.output
                                   : telemetry::default_recording_name(environment));
  return telemetry::is_one_of_many_nodes(environment)
             ? telemetry::file_of_node(wanted, telemetry::this_host(environment))
             : wanted;
}

/// The request in the recorder's words. `marks`: folder in which the program leaves its marks.
telemetry::RecordingPlan recording_plan(const RecordingRequest& request,
                                        const telemetry::LaunchEnvironment& environment,
                                        const Path& target, const Path& marks,
                                        const std::shared_ptr<telemetry::SensorOpening>& opening) {
  telemetry::RecordingPlan plan;
  plan.file = target;
  plan.steps = request.steps;
  plan.name = target.stem().string();
  plan.producer = program_version();
  plan.host = telemetry::this_host(environment);
  plan.marks = marks;
  plan.opening = opening;
  if (request.interval) plan.sampling.interval = *request.interval;
  plan.sampling.follow_sensors = !request.interval;
  plan.sampling.list_processes = telemetry::sees_all_processes(request.sensors.paths.proc);
  plan.facts["command"] = joined(request.command);
  if (!environment.launcher.empty()) plan.facts["launcher"] = environment.launcher;
  if (!environment.job.empty()) plan.facts["launch"] = environment.job;
  plan.world_size = environment.world_size;
  return plan;
}

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
  Result<std::shared_ptr<telemetry::SensorOpening>> open_sensors(
      const telemetry::SignalsForCommand& signals) const {
    auto opening = std::make_shared<telemetry::SensorOpening>(request_.sensors);
    if (request_.sensors.devices.empty()) return opening;
    bool wants_end = false;
    opening->wait_for_list(longest_listing,
                           [&] { return wants_end = wants_end || signals.take_end(); });
    if (wants_end) return error("ended by a signal before the command was started");
    if (const auto unknown = opening->unknown_device()) return error(unknown->what);
    return opening;
  }

  /// Ranks of this node.
  size_t num_expected() const { return as_size(environment_.local_size.value_or(1)); }

  /// Ranks that the command has started, as torchrun does, some seconds after its begin.
  void look_for_ranks(Recorder& recorder) {
    if (all_processes_known_ || turns_ < next_look_) return;
    next_look_ = turns_ + std::min(turns_, longest_wait_between_looks);
    const auto processes = telemetry::ranks_below(command_, environment_);
    if (processes.size() <= processes_seen_) return;
    processes_seen_ = processes.size();
    recorder.know_processes(processes);
    const auto local_size = processes.front().launch.local_size.value_or(INT32_MAX);
    all_processes_known_ = processes_seen_ >= as_size(local_size);
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
    const run::ProducerNumbers shares = cpu_shares(begin, *end, own);
    if (shares.others_cpu_share)
      recorder.set_cpu_shares(*shares.others_cpu_share, *shares.idle_cpu_share);
    const auto note = busy_machine_note(shares);
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
  telemetry::LaunchEnvironment environment_;
};

using telemetry::NodeGathering;
using telemetry::Recorder;

constexpr std::chrono::milliseconds nap{100};
constexpr int turns_per_look = 10;  // at the ranks of the node

}  // namespace

Result<RecordedCommand> record_command(const Watch& watch, const RecordingRequest& request) {
  return Recording(watch, request).run();
}

struct OwnRecording::State {
  RecordingRequest request;
  telemetry::LaunchEnvironment environment;
  std::optional<NodeGathering> gathering;  // left at the end
  Path marks, target;
  std::unique_ptr<Recorder> recorder;  // of the rank that records
  std::vector<std::string> remarks;    // of the thread; read when it has ended
  std::jthread thread;

  /// Marks, and every second samples and the disk.
  void turn(int number) {
    if (number % turns_per_look == 0) recorder->know_ranks(gathering->ranks());
    if (const auto done = recorder->turn(); !done && remarks.empty())
      remarks.push_back(done.error().what + " (the recording went on when there was room)");
  }

  void watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    for (int number = 0; !stop.stop_requested(); ++number) {
      turn(number);
      changed.wait_for(lock, stop, nap, [] { return false; });
    }
  }

  void wait_for_others() const {
    const auto expected = as_size(environment.local_size.value_or(1));
    for (int turns = 0; turns < most_turns_for_others && expected > 1; ++turns) {
      if (gathering->ranks().size() >= expected && gathering->others_have_left()) return;
      std::this_thread::sleep_for(nap);
    }
  }
};

OwnRecording::OwnRecording(std::unique_ptr<State> state) : state_(std::move(state)) {}

OwnRecording::~OwnRecording() = default;

Result<std::unique_ptr<OwnRecording>> OwnRecording::begin(const RecordingRequest& request) {
  const auto environment = telemetry::read_launch_environment(telemetry::process_variable);
  NodeGathering gathering = TPT_TRY(NodeGathering::join(
      environment, getppid(), telemetry::shared_memory_folder(telemetry::process_variable)));
  auto state = std::unique_ptr<State>(new State{.request = request,
                                                .environment = environment,
                                                .gathering = std::move(gathering),
                                                .recorder = nullptr});
  state->marks = state->gathering->marks();
  if (state->gathering->leads()) {
    State& own = *state;
    own.target = recording_file(request, environment);
    if (const auto old = TPT_TRY(telemetry::keep_old_recording(own.target)))
      own.remarks.push_back(
          fmt::format("the old {} is now {}", own.target.string(), old->string()));
    const auto opening = std::make_shared<telemetry::SensorOpening>(request.sensors);
    own.recorder = TPT_TRY(
        Recorder::begin(recording_plan(request, environment, own.target, own.marks, opening), {}));
    own.thread = std::jthread([&own](const std::stop_token& stop) { own.watch(stop); });
  }
  return std::unique_ptr<OwnRecording>(new OwnRecording(std::move(state)));
}

Path OwnRecording::marks() const {
  return state_->marks;
}

Path OwnRecording::file() const {
  return state_->target;
}

Result<std::vector<std::string>> OwnRecording::finish() {
  State& own = *state_;
  if (own.recorder != nullptr) own.wait_for_others();
  own.thread = {};  // asks it to stop and waits for its end
  if (own.recorder == nullptr) {
    own.gathering.reset();  // who records waits for it
    return std::vector<std::string>();
  }
  const Result<telemetry::RecordingSummary> finished = own.recorder->finish();
  own.gathering.reset();  // with the folder of the marks, which have been read
  const telemetry::RecordingSummary summary = TPT_TRY(finished);
  if (own.request.job) TPT_TRY(describe_recording(own.target, *own.request.job));
  own.remarks.push_back(telemetry::text_of(summary, own.target.string()));
  return own.remarks;
}

namespace {

double seconds_of(const timeval& time) {
  return as_real(time.tv_sec) + 1e-6 * as_real(time.tv_usec);
}

double cpu_seconds_of(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace

std::optional<MachineSeconds> machine_seconds_of(const std::string& proc_stat) {
  std::istringstream words(proc_stat);
  std::string name;
  // user nice system idle iowait irq softirq steal; guests' times are in user and nice.
  std::array<double, 8> ticks{};
  words >> name;
  for (double& one : ticks)
    words >> one;
  if (!words || name != "cpu") return std::nullopt;
  const double per_s = as_real(sysconf(_SC_CLK_TCK));
  const double idle = ticks[3] + ticks[4];
  const double all = sum_of(ticks);
  return MachineSeconds{(all - idle) / per_s, idle / per_s};
}

std::optional<MachineSeconds> machine_seconds() {
  const auto text = read_file("/proc/stat");
  return text ? machine_seconds_of(*text) : std::nullopt;
}

double own_cpu_seconds() {
  return cpu_seconds_of(RUSAGE_SELF) + cpu_seconds_of(RUSAGE_CHILDREN);
}

run::ProducerNumbers cpu_shares(const MachineSeconds& begin, const MachineSeconds& end,
                                double own) {
  const double all = end.all() - begin.all();
  if (!(all > 0)) return {};
  return {.others_cpu_share = std::max(0.0, end.busy - begin.busy - own) / all,
          .idle_cpu_share = (end.idle - begin.idle) / all};
}

std::optional<std::string> busy_machine_note(const run::ProducerNumbers& numbers) {
  if (!run::was_disturbed(numbers)) return std::nullopt;
  return fmt::format(
      "other programs used {:.0f} % of the processors' time and {:.0f} % was idle: steps are "
      "slower than on a machine without them, and a peak measured meanwhile is too low; measure "
      "again without them",
      100 * *numbers.others_cpu_share, 100 * *numbers.idle_cpu_share);
}

}  // namespace triplepoint::app
