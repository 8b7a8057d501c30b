// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/units.h"

#include "triplepoint/cli/flags/bind.h"

namespace triplepoint::cli {

/// A whole number within bounds; others are errors of the command line.
Store into_count(std::optional<int64_t>& target, int64_t least, int64_t most = 1'000'000);

/// A span of time within bounds.
Store into_time(std::optional<Seconds>& target, Seconds least = {}, Seconds most = 8760 * unit::h);

/// Limits of a simulation: less contains no step, and a month is steady.
inline constexpr Seconds shortest_play = 1 * unit::s, longest_play = 720 * unit::h;

/// --threads N, of the verbs that simulate or search.
class ThreadsFlag {
 public:
  explicit ThreadsFlag(std::string help) : help_(std::move(help)) {}

  Argument argument(std::string group = "Options");
  /// As asked for; else all that there are.
  int count() const;
  int count_or(int64_t usual) const { return static_cast<int>(asked_.value_or(usual)); }

 private:
  std::string help_;
  std::optional<int64_t> asked_;
};

}  // namespace triplepoint::cli
