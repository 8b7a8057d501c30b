// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace triplepoint {

void parallel_for(std::size_t items, int threads, const std::function<void(std::size_t)>& task,
                  const std::stop_token& stop) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr first;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < items && !failed && !stop.stop_requested(); i = next++)
        task(i);
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
  };
  // The caller is one of the threads.
  const std::size_t helpers =
      std::min<std::size_t>(items, static_cast<std::size_t>(std::max(threads, 1))) -
      (items > 0 ? 1 : 0);
  std::vector<std::jthread> running;
  running.reserve(helpers);
  for (std::size_t i = 0; i < helpers; ++i)
    running.emplace_back(work);
  work();
  running.clear();  // joins
  if (first) std::rethrow_exception(first);
}

int available_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace triplepoint
