// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// weaker: at least half of the pairs differ in the claimed direction, but too few by as much.
/// unknown: no pair of jobs has the number.
enum class ClaimVerdict { agrees, weaker, opposite, unknown };
std::string_view name_of(ClaimVerdict);

/// A claim held against the results of its study.
struct CheckedClaim {
  const spec::Claim* claim = nullptr;
  ClaimVerdict verdict = ClaimVerdict::unknown;
  std::size_t pairs = 0, within = 0;  // of jobs that have the number; within [least, most]
  double lowest = 0, median = 0, highest = 0;
  std::string missing = {};  // why no pair has the number; empty: the claim names no jobs
};

/// Every claim of a study. A claim agrees if `share` of the pairs lie within its bounds; else it is
/// weaker if half of them lie on their side of equality (1 of a ratio, 0 of a difference; no number
/// of one job alone is opposite), else opposite.
std::vector<CheckedClaim> check_claims(const Study& study);

/// "claims (37): 28 agree, 2 weaker, ...".
std::string claims_summary(const std::vector<CheckedClaim>& claims);
Json claims_json(const std::vector<CheckedClaim>& claims);
/// The table of a study's page; empty for a study without claims.
std::string claims_section(const Study& study);

/// Whether a name matches a pattern, and the text for each * of it. The shortest texts first.
std::optional<std::vector<std::string>> match_name(std::string_view pattern, std::string_view name);

}  // namespace triplepoint::report
