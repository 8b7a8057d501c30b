// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/units.h"

#include "triplepoint/cli/flags/bind.h"

namespace triplepoint::cli {

/// A whole number within bounds; others are errors of the command line.
Result<int64_t> read_count(std::string_view text, int64_t least, int64_t most);
template <class T>
Store into_count(T& target, int64_t least, int64_t most = 1'000'000) {
  return [&target, least, most](std::string_view text) -> Result<void> {
    target = static_cast<T>(TPT_TRY(read_count(text, least, most)));
    return {};
  };
}

/// A span of time within bounds. `target`: Seconds, or optional.
Result<Seconds> read_time(std::string_view text, Seconds least, Seconds most);
template <class T>
Store into_time(T& target, Seconds least = {}, Seconds most = 8760 * unit::h) {
  return into(target,
              [least, most](std::string_view text) { return read_time(text, least, most); });
}

/// Limits of a simulation: less contains no step, and a month is steady.
inline constexpr Seconds shortest_play = 1 * unit::s, longest_play = 720 * unit::h;

/// --threads N, of the verbs that simulate or search.
class ThreadsFlag {
 public:
  explicit ThreadsFlag(std::string help) : help_(std::move(help)) {}

  Argument argument();
  /// As asked for; else all that there are.
  int count() const;
  int count_or(int64_t usual) const { return static_cast<int>(asked_.value_or(usual)); }

 private:
  std::string help_;
  std::optional<int64_t> asked_;
};

}  // namespace triplepoint::cli
