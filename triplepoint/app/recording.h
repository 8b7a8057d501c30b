// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/telemetry/recorder/closing.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::app {

/// What to record, and how.
struct RecordingRequest {
  std::vector<std::string> command;
  std::optional<std::string> output;  // NAME.run; else by the launch or the date
  telemetry::StepWindow steps;
  std::optional<Seconds> interval;  // else as often as sensors update
  std::optional<spec::Job> job;     // what the command trains
  telemetry::SensorOptions sensors;
  bool quiet = false;
  bool strict = false;  // a recording that lacks something is a failure of a command that had none
};

/// How a recorded command ended.
struct RecordedCommand {
  int code = 0;         // its exit code
  std::string summary;  // of the recording, for people; empty where another rank records
};

/// Runs a command and records the node. Of several ranks on a node one records; the others run
/// their command.
Result<RecordedCommand> record_command(const Watch&, const RecordingRequest&);

/// A recording of the node by the process that trains, instead of around its command. Of several
/// ranks on a node one records; the others leave their marks in the same folder.
class OwnRecording {
 public:
  /// What it writes and where its marks go are open when this returns.
  static Result<std::unique_ptr<OwnRecording>> begin(const RecordingRequest&);
  OwnRecording(const OwnRecording&) = delete;
  OwnRecording& operator=(const OwnRecording&) = delete;
  ~OwnRecording();

  Path marks() const;
  /// The recording's file; empty where another rank of this node records.
  Path file() const;
  /// Ends it: a summary and remarks for people, or nothing where another rank records. The ranks
  /// beside this one are waited for.
  Result<std::vector<std::string>> finish();

 private:
  struct State;
  explicit OwnRecording(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes into a recording what its job says: the job itself, the flops of a step, the stage of
/// each rank's spans, and what spans are that bear the names of the job's operations (class,
/// collective, group). Ranks that are processes on the cores of one machine become its devices,
/// which have a rank and no readings. Spans that are one collective are told, and with them how
/// long each rank waited for the last; unless marks were lost. Nothing that was measured changes.
void describe_with_job(run::Run& recording, const spec::Job& job);

/// Writes into a recording what triplepoint-train says at its end (trainer/runtime/main.cpp):
/// the memory of each stage at its peak, the rate of products that was measured before the first
/// step as the peak of MFU, bytes moved per group and collective, the first and the last loss. The
/// error says what is wrong with the report; the recording is then as it was.
Result<void> add_trainer_report(run::Run& recording, const std::string& report);

/// The same as describe_with_job, in its file.
Result<void> describe_recording(const Path& file, const spec::Job& job);

/// Seconds of all hardware threads of this machine since it was started, as /proc/stat has them.
struct MachineSeconds {
  double busy = 0;  // user, system, interrupts, and what a hypervisor gave to others
  double idle = 0;  // and waiting for disks

  double all() const { return busy + idle; }
};

/// Nothing where the text is not of /proc/stat.
std::optional<MachineSeconds> machine_seconds_of(const std::string& proc_stat);
std::optional<MachineSeconds> machine_seconds();

/// CPU seconds of this process and of its children that have ended, with theirs.
double own_cpu_seconds();

/// others_cpu_share and idle_cpu_share between both; absent where no time passed.
/// `own`: CPU seconds of the command.
run::ProducerNumbers cpu_shares(const MachineSeconds& begin, const MachineSeconds& end, double own);

/// What is said of a recording that others have slowed down (run::was_disturbed); else nothing.
std::optional<std::string> busy_machine_note(const run::ProducerNumbers&);

}  // namespace triplepoint::app
