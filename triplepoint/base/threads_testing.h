// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

/// How many threads something starts, for tests.
namespace triplepoint {

/// The most threads of this process while something is done, beside those that it has now.
std::ptrdiff_t most_threads_in(const auto& task) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const std::ptrdiff_t before = threads() + 1;  // with the one that counts
  std::atomic<bool> done = false;
  std::ptrdiff_t most = 0;
  std::jthread counter([&] {
    while (!done)
      most = std::max(most, threads());
  });
  task();
  done = true;
  counter.join();
  return most - before;
}

}  // namespace triplepoint
