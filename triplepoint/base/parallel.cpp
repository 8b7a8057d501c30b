// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

namespace triplepoint {
namespace {

constexpr int no_limit = std::numeric_limits<int>::max();
thread_local int limit = no_limit;

}  // namespace

void parallel_for(std::size_t items, int threads, const std::function<void(std::size_t)>& task,
                  const std::stop_token& stop) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr first;
  const std::size_t allowed = static_cast<std::size_t>(std::max(1, std::min(threads, limit)));
  const std::size_t workers = std::min(items, allowed);
  const auto work = [&] {
    const ThreadLimit share(static_cast<int>(allowed / std::max<std::size_t>(1, workers)));
    try {
      for (std::size_t i = next++; i < items && !failed && !stop.stop_requested(); i = next++)
        task(i);
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
  };
  std::vector<std::jthread> running;
  running.reserve(workers);
  for (std::size_t i = 1; i < workers; ++i)  // the caller is one of the threads
    running.emplace_back(work);
  work();
  running.clear();  // joins
  if (first) std::rethrow_exception(first);
}

int available_threads() {
  if (limit != no_limit) return limit;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadLimit::ThreadLimit(int threads) : before_(limit) {
  limit = std::min(before_, std::max(1, threads));
}

ThreadLimit::~ThreadLimit() {
  limit = before_;
}

}  // namespace triplepoint
