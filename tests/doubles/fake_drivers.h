// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The made-up drivers, as tests use them. README.md beside this says what scripts can do.

#include <string>
#include <string_view>

#include "triplepoint/base/files.h"

namespace triplepoint::doubles {

/// A folder that is there as long as this is, in the place of /sys, /proc or /dev.
class ScratchTree {
 public:
  ScratchTree();
  ScratchTree(const ScratchTree&) = delete;
  ScratchTree& operator=(const ScratchTree&) = delete;
  ~ScratchTree();

  const Path& root() const { return root_; }
  /// Writes a file, in place: who has it open sees the new content.
  void write(const Path& file, std::string_view content) const;
  void write(const Path& file, double number) const;
  void link(const Path& from, const Path& to) const;
  void remove(const Path& file) const;
  void forbid(const Path& file) const;  // no permission to read it (root may, all the same)

 private:
  Path root_;
};

/// NVML as a driver of this age has it: 11, 12 or 13 (of CUDA's versions). Its script lies in the
/// file that TRIPLEPOINT_FAKE_NVML names. While this lives, opening `library()` in this process, or
/// in one started from it, finds the script.
class FakeNvml {
 public:
  explicit FakeNvml(const std::string& script, int age = 13);
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;
  ~FakeNvml();

  const std::string& library() const { return library_; }
  /// From now on the script's clock stands here (s). Only in this process.
  void set_time(double at);

 private:
  ScratchTree folder_;
  std::string library_;
  void* handle_ = nullptr;
};

}  // namespace triplepoint::doubles
