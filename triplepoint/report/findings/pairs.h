// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "triplepoint/report/findings/groups.h"

namespace triplepoint::report {

/// What one may turn to make a job another one.
enum class PlanSetting { layout, microbatch, recompute, overlap, placement };

/// Two jobs of a group that differ in one setting and in nothing else.
struct Pair {
  const StudyRow *from = nullptr, *to = nullptr;
  PlanSetting setting = PlanSetting::layout;
};

/// All ordered pairs of a group. Both are valid; they ran or did not fit.
std::vector<Pair> pairs_of(const Group& group);
/// The same over all groups, of one setting, both ran.
std::vector<Pair> pairs_that_ran(const std::vector<Group>& groups, PlanSetting setting);

/// The pair with the highest value; pairs without one are passed over.
using PairValue = std::function<std::optional<double>(const Pair&)>;
std::optional<Pair> strongest(const std::vector<Pair>& pairs, const PairValue& value);

/// The one's number over the other's; absent where either is not known or not above zero.
std::optional<double> ratio_at(const Pair& pair, std::string_view key);
std::optional<double> ratio_at(const StudyRow& row, const StudyRow& over, std::string_view key);

/// The job with the highest (or lowest) number among those that know it; null if none does.
const StudyRow* highest(const std::vector<const StudyRow*>& rows, std::string_view key);
const StudyRow* lowest(const std::vector<const StudyRow*>& rows, std::string_view key);

}  // namespace triplepoint::report
