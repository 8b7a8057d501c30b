// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/mark/reader.h"
#include "triplepoint/telemetry/recorder/child_process.h"
#include "triplepoint/telemetry/recorder/closing.h"
#include "triplepoint/telemetry/recorder/node_gathering.h"
#include "triplepoint/telemetry/sampler/sampler.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry {

/// Both clocks of the node at the same moment, as near as they can be read.
struct ClockPair {
  int64_t monotonic_ns = 0, unix_ns = 0;
};
ClockPair read_clocks();

/// Decides when to keep the pair: at the start, every minute, and when the wall clock was
/// set. (CLOCK_MONOTONIC never jumps; the wall clock may, and is slewed.)
class ClockWatch {
 public:
  static constexpr int64_t every_ns = 60'000'000'000;
  static constexpr int64_t jump_ns = 20'000'000;

  struct Verdict {
    bool keep = false;
    std::optional<int64_t> jumped_ns;  // the wall clock, since the last look
  };
  Verdict look(const ClockPair& now);

 private:
  std::optional<ClockPair> last_look_;
  int64_t last_kept_ns_ = 0;
};

/// What to record, and under which names.
struct RecordingPlan {
  Path file;
  SamplingPlan sampling;
  StepWindow steps;
  std::string name;      // of the run: the command
  std::string producer;  // "triplepoint 0.1.0"
  std::string host;
  std::optional<Path> marks;          // folder in which the command leaves its marks
  std::optional<int64_t> world_size;  // ranks of the job, as its launcher says
  std::map<std::string, std::string> facts;
  std::vector<Gap> gaps;                   // of what could not be opened
  std::shared_ptr<SensorOpening> opening;  // sensors come from here as well, when they are open
};

/// Records a node into a growing run. Samples come from the sampler's own thread; turn() is called
/// by the thread that waits for the command, some ten times a second.
class Recorder {
 public:
  /// The file exists, and everything is being sampled, when this returns.
  static Result<std::unique_ptr<Recorder>> begin(const RecordingPlan& plan,
                                                 std::vector<std::unique_ptr<Sensor>> sensors);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  Recorder(Recorder&&) = delete;
  Recorder& operator=(Recorder&&) = delete;
  ~Recorder();

  /// Takes marks and sensors that have been opened; once a second takes samples and makes sure that
  /// all of it is on disk. The error (disk full) is the first of its kind; the recording goes on as
  /// far as it can.
  Result<void> turn();
  void know_ranks(const std::vector<NodeRank>& ranks);
  /// Ranks that the command itself has started. They count in the place of those known before: a
  /// launcher inside of another one knows better.
  void know_processes(const std::vector<RankProcess>& processes);
  void note(const std::string& text);

  /// Ends the recording, within two seconds whatever drivers do; the file is then a run like any
  /// other.
  Result<RecordingSummary> finish();
  /// Where finish() has failed: what did not reach the disk.
  Seconds lost_without_end() const;

  const Sampler& sampler() const;

 private:
  struct State;
  explicit Recorder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Makes room for a new recording: one that is there already becomes NAME.1.run (.2, ...); its new
/// name. Nothing is ever written over.
Result<std::optional<Path>> keep_old_recording(const Path& file);

/// NAME.host.run for NAME.run.
Path file_of_node(const Path& file, const std::string& host);

}  // namespace triplepoint::telemetry
