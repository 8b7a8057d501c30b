// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::study {

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
Result<int> run_launch(tui::Console&, const std::vector<std::string>& command,
                       const ProcessEnvironment&, Launcher = Launcher::none,
                       const Path& report = {});

}  // namespace triplepoint::study
