// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

bool looks_like_tar(std::string_view head);

/// The plain files of a tar archive, one after the other: ustar, GNU's and pax' long names.
class Tar {
 public:
  explicit Tar(Input& archive) : archive_(archive) {}

  struct Entry {
    std::string name;
    uint64_t size = 0;
  };
  /// The next plain file; nothing at the end. What is left of the one before is passed over.
  Result<std::optional<Entry>> next();
  /// Its bytes. The archive must outlive it, and next() ends it.
  std::unique_ptr<Source> contents();

 private:
  friend class TarContents;
  Result<bool> pass_over(uint64_t size);
  Result<std::string> text_of(uint64_t size);
  Result<size_t> read(std::span<char> room);

  Input& archive_;
  uint64_t left_ = 0, padding_ = 0;  // of the current file
};

}  // namespace triplepoint::trace
