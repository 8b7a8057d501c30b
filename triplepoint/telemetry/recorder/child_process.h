// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::telemetry {

/// Signals which this process gets for the command that it runs are taken by wait_for() from here
/// on. To be made before any thread is.
class SignalsForCommand {
 public:
  SignalsForCommand();
  SignalsForCommand(const SignalsForCommand&) = delete;
  SignalsForCommand& operator=(const SignalsForCommand&) = delete;
  ~SignalsForCommand();

  /// A signal that asks us to end, if one has come.
  std::optional<int> take_end() const;
  const sigset_t& taken() const { return taken_; }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t taken_, before_;
};

/// A command that runs beside us, as if it had been called alone: same standard streams, same
/// process group (so that the terminal's Ctrl-C and Ctrl-Z reach it as ever), default signals.
class ChildProcess {
 public:
  /// `apart`: in its own process group, with nothing to read, for launchers that would kill
  /// what they have started. The first Ctrl-C or SIGHUP reaches it as SIGUSR1, which launchers
  /// pass on to all ranks; all else as it is.
  enum class Place { beside, apart };

  /// The error says that it could not be started; its exit code is then start_failed().
  static Result<ChildProcess> start(const std::vector<std::string>& command,
                                    const std::map<std::string, std::string>& variables,
                                    const SignalsForCommand& signals, Place place = Place::beside);

  /// Waits for its end, at most so long. Signals that come meanwhile are passed on, but for those
  /// that the terminal has sent to both of us. The exit code as shells tell it: 128 + signal.
  std::optional<int> wait_for(Seconds most);
  pid_t id() const { return id_; }
  /// The first request to end that came to us while it ran.
  std::optional<int> end_request() const { return end_request_; }

 private:
  ChildProcess(pid_t id, const sigset_t& signals, Place place)
      : id_(id), signals_(signals), place_(place) {}
  void pass_on(int signal, bool from_terminal);

  pid_t id_;
  sigset_t signals_;
  Place place_;
  std::optional<int> end_request_;
};

/// What shells return for a command that is not there (127) or may not be run (126).
int start_failed(const std::string& command);

/// A process of a training with its place in the job.
struct RankProcess {
  int64_t pid = 0;
  LaunchEnvironment launch;
  std::vector<int64_t> all_pids = {};  // its own and those of its helpers
};

/// Whether this process sees processes by the numbers that drivers use: not inside a container.
bool sees_all_processes(const Path& proc = "/proc");

/// Ranks among the processes that `pid` has started, itself included, by the environment that each
/// was started with: the workers of `record -- torchrun ...`. One process per rank: the first,
/// which has started the others. Processes that only inherit the place of the recorder (`own`) are
/// no news.
std::vector<RankProcess> ranks_below(int64_t pid, const LaunchEnvironment& own,
                                     const Path& proc = "/proc");

}  // namespace triplepoint::telemetry
