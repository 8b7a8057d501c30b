// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/mark/mark.h"
#include "triplepoint/mark/reader.h"
#include "triplepoint/mark/wire.h"

namespace triplepoint::mark {

/// A folder for marks that is gone when the test is.
class MarkFolder : public ScratchFolder {
 public:
  std::vector<Path> files() const {
    std::vector<Path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder()))
      files.push_back(entry.path());
    return files;
  }
  Path only_file() const { return files().at(0); }
};

inline std::string bytes_of(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put_bytes(const Path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Starts a process that does `work` with marks going to the folder; its number.
pid_t start_child(const MarkFolder& folder, const auto& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("TRIPLEPOINT_MARKS", folder.folder().c_str(), 1);
  setenv("TRIPLEPOINT_MARK_LIBRARY", TPT_MARK_LIBRARY, 1);
  work();
  _exit(0);
}

/// The same, and waits for it; its exit code, -1 if a signal ended it.
int run_child(const MarkFolder& folder, const auto& work) {
  int status = 0;
  waitpid(start_child(folder, work), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline std::vector<Event> all_events(Reader& reader) {
  std::vector<Event> events;
  reader.drain([&](const Event& event) { events.push_back(event); });
  return events;
}

}  // namespace triplepoint::mark
