// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::app {

/// Who starts the ranks of a training. `none`: they have been started already, and this process is
/// one of them. `threads`: they are threads of one process.
enum class Launcher { none, mpirun, srun, threads };

/// What is started, apart from who starts it.
struct TrainRequest {
  Path self;      // this program, which records
  Path trainer;   // triplepoint-train
  Path job_file;  // says everything, needs no library
  int64_t ranks = 1, nodes = 1;
  int64_t steps = 1;
  std::vector<std::string> flags;  // of the trainer, passed on
  std::optional<Path> recording;
  int64_t warmup = 0;  // steps that are not measured
  bool quiet = false;  // do not print a summary of the recording
};

/// What of the machine decides how ranks are started.
struct ProcessEnvironment {
  std::function<std::optional<std::string>(const char*)> variable;
  std::function<bool(const std::string& program)> has_program;
};
ProcessEnvironment process_environment();

/// Of the Slurm allocation that we are in; 1 without.
int64_t nodes_allocated(const ProcessEnvironment&);

/// A rank that has been started does not start others; in a Slurm allocation of several nodes srun
/// does it; otherwise mpirun if installed, else threads. Words: auto, mpirun, srun, threads.
Result<Launcher> choose_launcher(const std::string& word, const ProcessEnvironment&);

std::vector<std::string> launch_command(const TrainRequest& request, Launcher launcher);

/// What makes Open MPI (4 and 5) start more ranks than there are cores, as root too, let those that
/// wait give way, and copy between processes the way this kernel allows; one thread per rank in
/// BLAS; and a ring that a training which marks every operation does not overrun. What the user
/// has set already stays.
std::map<std::string, std::string> launch_variables(const ProcessEnvironment&);

/// NAME.HOST.run of each node beside NAME.run; older ones, NAME.HOST.1.run, are not among them.
Result<std::vector<Path>> recordings_of_nodes(const Path& output);

/// triplepoint-train: as TRIPLEPOINT_TRAINER says, beside this program, or in PATH.
Result<Path> find_trainer(const ProcessEnvironment&);

/// Runs the command until it ends; its exit code. `report`: where the trainer writes what it
/// measured.
Result<int> run_launch(const Watch&, const std::vector<std::string>& command,
                       const ProcessEnvironment&, Launcher = Launcher::none,
                       const Path& report = {});

/// A job's file, and beside it the trainer's numbers; both are gone when this is.
class JobFile {
 public:
  static Result<JobFile> write(const Path& folder, const std::string& text);
  JobFile(JobFile&& other) noexcept : path_(std::exchange(other.path_, Path())) {}
  JobFile& operator=(JobFile&&) = delete;
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  ~JobFile();
  const Path& path() const { return path_; }
  /// Where the trainer leaves its numbers.
  Path report() const;

 private:
  explicit JobFile(Path path) : path_(std::move(path)) {}
  Path path_;
};

/// Adds what the trainer left in `report` to a recording. An error leaves the recording as it is.
Result<void> add_report_of_trainer(const Path& recording, const Path& report);

/// Each node recorded NAME.HOST.run; together they are NAME.run.
Result<void> merge_nodes(const Path& output);

/// The training that `triplepoint train` runs if nothing else is said, as a job.toml: a small
/// Llama on the cluster `laptop`, split by tensor, pipeline and data parallelism; by data
/// parallelism alone where the user says how to split.
std::string beginning_of_training(bool user_splits);

/// Spreads `ranks` ranks over the cluster's nodes; over one node, if they do not divide evenly.
void spread_ranks(spec::Job& job, int64_t ranks);

/// At least one of the steps is measured.
Result<void> require_measured_step(int64_t warmup, int64_t steps);

/// Why the trainer cannot run a job that is valid as such: what only other stacks have, or a
/// layout that is wrong. What a prediction would need besides is not asked for.
Result<void> require_trainable(const spec::Job& job);

}  // namespace triplepoint::app
