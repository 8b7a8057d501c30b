// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/search/search_parts.h"
#include "triplepoint/search/space.h"

namespace triplepoint::flags {

/// What is searched for: the goal, the limits, the space, and the part of the space.
class SearchFlags {
 public:
  Arguments arguments();
  /// The flags that spread a search over processes which do not know each other.
  Arguments spread_arguments();
  Result<void> check_spread(bool has_output, bool has_pool) const;

  Result<search::Space> space(const spec::Job& base) const;
  search::Objective objective(const spec::Job& base, const metrics::BillRates&) const;
  search::Limits limits(const spec::Job& base) const;
  const std::string& fixed() const { return fix_; }
  const std::optional<search::Shard>& shard() const { return shard_; }
  const std::optional<std::string>& merge() const { return merge_; }

 private:
  std::string goal_ = "throughput", reach_ = "launchable", fix_;
  search::Limits limits_;
  search::Headroom headroom_;
  std::optional<search::Shard> shard_;
  std::optional<std::string> merge_;  // folder
};

}  // namespace triplepoint::flags
