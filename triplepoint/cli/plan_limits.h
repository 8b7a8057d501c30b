// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/search/objective.h"

namespace triplepoint::cli {

/// "600 W", or "gpu=600 W,node=8 kW,cluster=1 MW".
Result<void> parse_power(std::string_view text, search::Limits& limits);

/// "4 GB", or "5%" of what a device has.
struct Headroom {
  Bytes bytes;
  double share = 0;
  Bytes of(Bytes memory) const { return bytes + share * memory; }
};
Result<Headroom> parse_headroom(std::string_view text);

}  // namespace triplepoint::cli
