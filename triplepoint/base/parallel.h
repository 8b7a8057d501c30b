// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

namespace triplepoint {

/// Calls task(0) ... task(items - 1), each once, on `threads` threads; returns when all have ended.
///
/// Which thread runs which item is open, so a task writes only what its index owns; then the
/// outcome does not depend on the number of threads. Once a stop is requested, items that have not
/// begun are left out. The first exception of a task is thrown to the caller, and tasks that have
/// not begun are left out. At most one thread: all runs in order on the caller's.
void parallel_for(std::size_t items, int threads, const std::function<void(std::size_t)>& task,
                  const std::stop_token& stop = {});

/// How many threads this process may run at once; at least 1.
int available_threads();

}  // namespace triplepoint
