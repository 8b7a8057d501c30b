// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

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

}  // namespace triplepoint
