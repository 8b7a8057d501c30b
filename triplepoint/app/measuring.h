// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/app/runner.h"
#include "triplepoint/formats/job_scripts.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::app {

/// Runs jobs of a study by scripts, here or by Slurm.
class JobMeasurer {
 public:
  /// Makes the study's folders. `program`: this one.
  static Result<JobMeasurer> make(const Path& folder, const formats::MeasurePlan& plan,
                                  const Path& program, Watch watch);

  /// The run of the job: of its repetitions the one whose mean step takes longer than half of the
  /// others', with those of all in its facts. What was recorded before, by hand too, is taken as it
  /// is. The error says how the training failed; nothing if it was stopped, or only scripts are
  /// wanted. `stem`: of the job's files, with the digest of job and plan so that none is mistaken
  /// for another's. Called from several threads.
  Result<std::optional<run::Run>> operator()(const spec::Job& job, const std::string& stem) const;

 private:
  JobMeasurer() = default;
  formats::JobFiles files_of(const spec::Job& job, const std::string& stem) const;
  Result<void> write_files(const spec::Job& job, const formats::JobFiles& files,
                           Seconds limit) const;
  Result<bool> launch(const formats::JobFiles& files, int64_t repeat, Seconds limit) const;
  Result<bool> run_locally(const formats::JobFiles& files, int64_t repeat, Seconds limit) const;
  Result<bool> run_by_slurm(const formats::JobFiles& files, int64_t repeat) const;

  Path folder_, program_;
  formats::MeasurePlan plan_;
  Watch watch_;  // says what is wrong with the machine that a training ran on
};

/// run_study() with `at_once` measured jobs at a time. `retry`: those that failed before, too.
Result<StudyResults> measure_study(const Watch&, const spec::StudyPlan&, const Path& folder,
                                   const formats::MeasurePlan&, bool retry, int at_once);

/// run_study() with the simulator. `own`: what the jobs' coefficients were learned from.
Result<StudyResults> simulate_study(const Watch&, const spec::Library&, const spec::StudyPlan&,
                                    const std::optional<learn::Calibration>& own,
                                    const Path& folder, int threads);

/// How a training ended that ended badly, from its exit code and the end of what it printed.
std::string failure_sentence(int code, const std::string& printed, const Path& log);

/// How long one run of a job may take: start-up, and its steps, warm-up included, as simulated with
/// a margin; in whole minutes.
struct RunTime {
  static constexpr Seconds start_up = 10 * unit::min;  // containers, data, communicators
  static constexpr double margin = 2;                  // profilers and slow machines
  static constexpr Seconds least_if_unsure = 1 * unit::h;
  static constexpr Seconds most = 8760 * unit::h;

  std::optional<Seconds> steps;  // nothing: the job cannot be simulated
  bool fits_memory = true;       // as simulated
  Seconds limit;                 // the plan's timeout, if it has one
};
RunTime run_time(const spec::Job& job, const formats::MeasurePlan& plan);

/// "59.9 s", "43.2 min", "12 h", "365 days".
std::string limit_text(Seconds time);

/// What the simulation says against a job that is about to run: that it does not fit in memory, or
/// that its steps take longer than the limit. Empty: nothing.
std::string limit_remark(const spec::Job& job, const formats::MeasurePlan& plan,
                         const RunTime& time);

}  // namespace triplepoint::app
