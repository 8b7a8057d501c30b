// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/descriptor.h"
#include "triplepoint/base/files.h"

namespace triplepoint::telemetry {

/// A small file of the kernel that is read again and again: kept open, read from its beginning.
class OpenFile {
 public:
  OpenFile() = default;
  /// Opens; `is_open()` says whether that worked, `why()` why not.
  explicit OpenFile(const Path& path);

  bool is_open() const { return static_cast<bool>(file_); }
  std::string why() const;
  /// What is in it now, as far as it fits; nothing if the kernel gives an error (the device is
  /// gone, or asleep).
  std::optional<std::string_view> read(std::span<char> buffer) const;
  /// Its number, where it is one.
  std::optional<double> number() const;
  /// The same exactly; for counters.
  std::optional<uint64_t> count() const;

 private:
  Descriptor file_;
  int errno_ = 0;
};

/// The number a text begins with, blanks before it left out ("42\n", "325 W 1700000000 us");
/// nothing if it begins with something else, or is not finite.
std::optional<double> leading_number(std::string_view text);
std::optional<uint64_t> leading_count(std::string_view text);

/// A small file's first line, without blanks at its ends; "" if it cannot be read.
std::string first_line(const Path& path);

/// The names in a folder, sorted as people number them (card2 before card10); none if it cannot be
/// read.
std::vector<std::string> names_in(const Path& folder);

}  // namespace triplepoint::telemetry
