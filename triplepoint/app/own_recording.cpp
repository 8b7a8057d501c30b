// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/own_recording.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/app/recorded_job.h"
#include "triplepoint/app/recording_plan.h"
#include "triplepoint/telemetry/recorder/node_gathering.h"
#include "triplepoint/telemetry/recorder/recorder.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::app {
namespace {

using telemetry::NodeGathering;
using telemetry::Recorder;

constexpr std::chrono::milliseconds turn_length{100};
constexpr int turns_per_look = 10;          // at the ranks of the node
constexpr int most_turns_for_others = 300;  // as around a command

}  // namespace

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
      changed.wait_for(lock, stop, turn_length, [] { return false; });
    }
  }

  void wait_for_others() const {
    const auto expected = static_cast<size_t>(environment.local_size.value_or(1));
    for (int turns = 0; turns < most_turns_for_others && expected > 1; ++turns) {
      if (gathering->ranks().size() >= expected && gathering->others_have_left()) return;
      std::this_thread::sleep_for(turn_length);
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
                                                .marks = {},
                                                .target = {},
                                                .recorder = nullptr,
                                                .remarks = {},
                                                .thread = {}});
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

}  // namespace triplepoint::app
