// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

namespace triplepoint::trainer {

/// Keeps other trainings out of a folder of checkpoints, by flock on DIR/lock: it ends with the
/// process, however that ends. Makes the folder where it is missing.
class FolderLock {
 public:
  static Result<FolderLock> take(const Path& folder);
  FolderLock() = default;
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int file) : file_(file) {}
  int file_ = -1;
};

}  // namespace triplepoint::trainer
