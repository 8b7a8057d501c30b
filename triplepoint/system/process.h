// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

namespace triplepoint {

/// From now on Ctrl-C (SIGINT), SIGTERM and SIGHUP (a closed terminal) set a mark instead of ending
/// the process; the second one ends it. Writing into a closed pipe becomes an error code.
void listen_for_interrupts();

/// Verbs that have nothing to keep when they are interrupted say so first: Ctrl-C ends them at
/// once.
void let_interrupts_end_us();

/// Whether the user wants to stop.
bool interrupted();

/// Sets or wipes the mark; for tests.
void set_interrupted(bool value);

/// How a program is started: with default handlers of signals that we may ignore.
struct SpawnPlan {
  std::vector<std::string> command;
  std::vector<std::string> environment = {};    // "NAME=VALUE"; empty: ours
  bool apart = true;                            // in its own process group, with nothing to read
  std::optional<sigset_t> blocked = {};         // signals; absent: as ours
  std::optional<int> output = {}, errors = {};  // descriptors that it writes to; absent: as ours
};
Result<pid_t> spawn(const SpawnPlan& plan);

/// The exit code of a child as shells tell it (128 + signal); nothing while it runs.
std::optional<int> exit_code_of(pid_t child);

/// How a command ended.
struct GroupEnd {
  enum class How { exited, timed_out, stopped };
  How how = How::exited;
  int code = 0;  // as shells tell it: 128 + signal
};

/// Runs a command in its own process group, its output in a file, until it ends, the time is
/// up or a stop is asked for; then the whole group is ended, politely at first.
Result<GroupEnd> run_in_group(const std::vector<std::string>& command, const Path& log,
                              Seconds timeout, const std::function<bool()>& stopped);

// Threads for calls that may never return: into a driver, into a file of /sys.

/// Starts a thread that is never joined; all signals are blocked in it. The task owns what it uses,
/// or shares it.
void start_detached(std::function<void()> task);

/// Runs the task on such a thread. False if it has not ended within the limit: it goes on.
bool ends_within(Seconds limit, std::function<void()> task);

/// Detached threads that have not ended.
int64_t detached_threads();

/// Call it last in main() with the exit code: where detached threads still run, output is flushed
/// and the process ends without destructors of globals, which those threads may use.
int leave_process(int code);

}  // namespace triplepoint
