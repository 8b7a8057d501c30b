// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  ScratchTree(ScratchTree&&) = delete;
  ScratchTree& operator=(ScratchTree&&) = delete;
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

}  // namespace triplepoint::doubles
