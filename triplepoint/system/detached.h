// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "triplepoint/base/units.h"

/// Threads for calls that may never return: into a driver, into a file of /sys.
namespace triplepoint {

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
