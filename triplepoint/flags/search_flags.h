// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/search/search.h"
#include "triplepoint/search/space.h"

namespace triplepoint::flags {

/// What is searched for: the goal, the limits, the space, and the part of the space.
class SearchFlags {
 public:
  Arguments arguments();
  Result<search::Space> space(const spec::Job& base) const;
  search::Objective objective(const spec::Job& base, const metrics::BillRates&) const;
  search::Limits limits(const spec::Job& base) const;
  /// As by --fix.
  void fix(std::string_view list);

 private:
  std::string goal_ = "throughput", reach_ = "launchable", fix_;
  search::Limits limits_;
  search::Headroom headroom_;
};

}  // namespace triplepoint::flags
