// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/search/objective.h"

namespace triplepoint::search {

/// "600 W", or "gpu=600 W,node=8 kW,cluster=1 MW".
Result<void> parse_power(std::string_view text, search::Limits& limits);

/// "4 GB", or "5%" of what a device has.
struct Headroom {
  Bytes bytes;
  double share = 0;
  Bytes of(Bytes memory) const { return bytes + share * memory; }
};
Result<Headroom> parse_headroom(std::string_view text);

/// The job with sizes that fit any cluster: what the search chooses must not stop it from being
/// looked at.
spec::Job without_layout(const spec::Job& job);

/// Cost of a step, from the cost of a second and of a joule at these rates.
search::Objective objective_of(search::Goal goal, const spec::Job& job,
                               const metrics::BillRates& rates);

}  // namespace triplepoint::search
