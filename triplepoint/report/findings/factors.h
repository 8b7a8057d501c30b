// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/report/findings/groups.h"

namespace triplepoint::report {

/// What jobs of a study differ in: rooms, limits, networks and faults (condition), sizes of one
/// machine, what is trained, and the settings of a plan. A layout brings its own sharding, layers
/// per stage and optimizer; a placement its layers.
enum class Factor {
  condition,
  size,
  task,
  layout,
  microbatch,
  recompute,
  overlap,
  placement,
  sends
};

/// Two jobs that differ in one thing and in nothing else.
struct Pair {
  const StudyRow *from = nullptr, *to = nullptr;
  Factor factor = Factor::layout;
};

/// All ordered pairs of a group that differ in a setting of the plan. Both are valid; they ran or
/// did not fit.
std::vector<Pair> pairs_of(const Group& group);

/// Jobs that ran and differ in one thing alone. The first is the one that the others are compared
/// with: the first room, the smallest size, the setting that is off. Of layouts, which are compared
/// each at its best, the slowest and the fastest.
struct Series {
  Factor factor = Factor::layout;
  std::vector<const StudyRow*> rows;

  const StudyRow& base() const { return *rows.front(); }
  /// Speed over that of the base, per GPU where sizes differ.
  double speed(const StudyRow& row) const;
  /// The job whose speed changes most against the base; by how much, as a natural logarithm.
  const StudyRow& extreme() const;
  double effect() const;
};
std::vector<Series> series_of(const std::vector<Group>& groups, Factor factor);

/// "tokens_per_s"; per GPU where sizes differ.
std::string_view speed_key(Factor factor);

/// What sets a job apart in a series: "inlet 45 °C", "32 x H200", "microbatch 2", "no overlap".
std::string level_of(const StudyRow& row, Factor factor);
/// What all jobs of a series have in common: "gpt3-175b on 32 x H200, TP8-PP4".
std::string subject_of(const Series& series);

}  // namespace triplepoint::report
