// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

/// How many threads something starts, for tests.
namespace triplepoint {

/// The threads of this process that are not about to exit: one that was joined may still be listed.
inline std::set<std::string> living_threads() {
  constexpr unsigned exiting = 4;  // PF_EXITING, of the flags in /proc/PID/stat
  std::set<std::string> living;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string text;
    std::getline(std::ifstream(task.path() / "stat"), text);
    std::istringstream behind_name(text.substr(std::min(text.size(), text.rfind(") ") + 2)));
    std::string word;
    for (int field = 0; field < 6; ++field)
      behind_name >> word;
    if (unsigned flags = exiting; behind_name >> flags && (flags & exiting) == 0)
      living.insert(task.path().filename());
  }
  return living;
}

/// The most threads of this process while something is done, beside those that it has now. Those in
/// two readings lived at once between them.
std::ptrdiff_t most_threads_in(const auto& task) {
  const std::ptrdiff_t before = std::ssize(living_threads()) + 1;  // with the one that counts
  std::atomic<bool> done = false;
  std::ptrdiff_t most = 0;
  std::jthread counter([&] {
    for (std::set<std::string> last; !done;) {
      std::set<std::string> now = living_threads();
      most = std::max(most, std::ranges::count_if(now, [&](const std::string& thread) {
                        return last.contains(thread);
                      }));
      last = std::move(now);
    }
  });
  task();
  done = true;
  counter.join();
  return most - before;
}

}  // namespace triplepoint
