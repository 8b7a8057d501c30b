// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"

namespace triplepoint {

/// A folder that is gone when the test ends.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "triplepoint-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const Path& folder() const { return folder_; }
  Path operator/(const Path& name) const { return folder_ / name; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Not write_file_atomically: hundreds of flushes to disk would take most of a test's time.
  std::string file(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream file(folder_ / name, std::ios::binary);
    file << content;
    REQUIRE(file.good());
    return path(name);
  }

 private:
  Path folder_;
};

}  // namespace triplepoint
