// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/formats/export.h"

namespace triplepoint::formats {

/// How the jobs of a study are measured.
struct MeasurePlan {
  std::string launcher = "local";  // local, mpirun, threads, slurm
  int64_t repeats = 1;
  int64_t steps = 10, warmup = 2;  // of them; the first steps are not measured
  std::optional<Seconds> timeout;  // of one run; nothing: from the simulated step
  bool scripts_only = false;       // write what starts the jobs, start nothing
};

/// Which program trains a job.
enum class TrainingStack { triplepoint, megatron, nemo, torchtitan, unknown };
TrainingStack stack_of(const spec::Job& job);

/// A job's files in the study's folder; all paths are absolute.
struct JobFiles {
  Path folder;
  std::string stem;  // of all its files

  Path job() const { return folder / "jobs" / (stem + ".toml"); }
  Path script() const { return folder / "scripts" / (stem + ".sh"); }
  Path log() const { return folder / "logs" / (stem + ".log"); }
  Path launch(const char* extension) const { return folder / "launch" / (stem + extension); }
  /// What repetition `number` (from 1 on) records, and what says that it came to its end.
  Path recording(int64_t number) const;
  Path done(int64_t number) const;
  /// Where a profiler leaves traces of it: <job id>_kineto, with NeMo's chakra_profile.
  Path traces(int64_t number) const;
};

/// What other tools need besides the script: a configuration or a command line of theirs, and what
/// they have no word for.
struct LaunchFile {
  Path path;
  std::string text;
  std::vector<std::string> unsupported_settings;
};
std::vector<LaunchFile> launch_files(const spec::Job& job, const JobFiles& files,
                                     const MeasurePlan& plan);

/// A shell script that runs one repetition (its argument; 1 by default) of a job with the
/// recorder in front, by hand as well as by sbatch, and leaves recording and mark of success.
/// `limit` is sbatch's time limit, in whole minutes.
///
/// Ranks that share cores (cluster.shared_cores) share one node; others have theirs.
std::string job_script(const spec::Job& job, const JobFiles& files, const MeasurePlan& plan,
                       Seconds limit, const Path& program);

/// A configuration for torchtitan's trainer (torchtitan.train --job.config_file). torchtitan knows
/// models by family and flavor; sizes of no flavor are refused_by_launcher, and the file names the
/// model as its flavor, at which torchtitan ends.
formats::Exported export_torchtitan(const spec::Job& job, int64_t steps);

}  // namespace triplepoint::formats
