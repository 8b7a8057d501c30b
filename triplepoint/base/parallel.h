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
/// not begun are left out. At most one thread: all runs in order on the caller's. Under a
/// ThreadLimit no more threads than it allows; tasks share what is allowed among them.
void parallel_for(std::size_t items, int threads, const std::function<void(std::size_t)>& task,
                  const std::stop_token& stop = {});

/// How many threads the caller may keep busy, itself among them: as many as the machine runs at
/// once, or what a ThreadLimit allows; at least 1. Decides who computes, never what.
int available_threads();

/// While it lives, what its thread calls keeps at most `threads` busy, itself among them; one
/// inside of another can only lower it.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace triplepoint
