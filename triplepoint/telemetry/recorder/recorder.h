// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/mark/reader.h"
#include "triplepoint/telemetry/recorder/child_process.h"
#include "triplepoint/telemetry/recorder/closing.h"
#include "triplepoint/telemetry/recorder/marks_to_run.h"
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
  int64_t last_stored_ns_ = 0;
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
  ~Recorder() = default;

  /// Takes marks and sensors that have been opened; once a second takes samples and makes sure that
  /// all of it is on disk. The error (disk full) is the first of its kind; the recording goes on as
  /// far as it can.
  Result<void> turn();
  void know_ranks(const std::vector<NodeRank>& ranks);
  /// Ranks that the command itself has started. They count in the place of those known before: a
  /// launcher inside of another one knows better.
  void know_processes(const std::vector<RankProcess>& processes);
  void note(const std::string& text) { run_->note(text); }
  /// Shares of the processors' time, of other programs and idle, while the command ran.
  void set_cpu_shares(double of_others, double idle) { run_->set_cpu_shares(of_others, idle); }

  /// Ends the recording, within two seconds whatever drivers do; the file is then a run like any
  /// other.
  Result<RecordingSummary> finish();
  /// Where finish() has failed: what did not reach the disk.
  Seconds lost_without_end() const;

  const Sampler& sampler() const { return sampler_; }

 private:
  Recorder(const RecordingPlan& plan, std::vector<std::unique_ptr<Sensor>> sensors)
      : plan_(plan), sampler_(std::move(sensors), plan.sampling) {}
  Result<void> begin_run();
  void adopt(Sensors part);
  void adopt_opened();
  void finish_opening();
  void drain_marks(int64_t now);
  void match_processes();
  void drain_samples();
  void count_dropped();
  void keep(const std::vector<Sample>& fresh);
  void look_at_clocks();
  void keep_troubles();
  void refresh_periods(run::Run& closing) const;
  Result<void> sync();

  RecordingPlan plan_;
  Sampler sampler_;
  std::optional<run::GrowingRun> run_;
  std::optional<MarksToRun> marks_to_run_;
  std::optional<mark::Reader> marks_;
  ClockWatch clocks_;
  int64_t epoch_ns_ = 0, next_sync_ns_ = 0;
  std::vector<std::optional<size_t>> series_;  // of each channel, once it has a value
  std::vector<Sample> samples_;
  std::map<int32_t, NodeRank> ranks_;
  std::map<int32_t, std::vector<int64_t>> processes_seen_;  // of each device, by the driver
  std::string not_measured_;                                // as the run has it
  // Of what did not fit on the disk, nor into memory:
  int64_t last_drain_ns_ = 0, last_safe_ns_ = 0, dropped_ns_ = 0, dropped_when_safe_ns_ = 0;
  int64_t dropped_ = 0;
  size_t troubles_ = 0;
  std::set<std::string> noted_;  // of troubles: each is noted once
  bool failed_ = false;
};

/// Makes room for a new recording: one that is there already becomes NAME.1.run (.2, ...); its new
/// name. Nothing is ever written over.
Result<std::optional<Path>> keep_old_recording(const Path& file);

/// NAME.host.run for NAME.run.
Path file_of_node(const Path& file, const std::string& host);

}  // namespace triplepoint::telemetry
