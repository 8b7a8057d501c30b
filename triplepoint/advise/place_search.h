// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/advise/place.h"

namespace triplepoint::advise {

/// The job in other rank orders that Megatron starts as well; the job itself first.
std::vector<spec::Job> rank_orders_of(const spec::Job&);

/// The fastest placement below `best` seconds, if there is one.
struct FoundPlacement {
  spec::Job job;
  double time = 0;
};
std::optional<FoundPlacement> search_placements(const spec::Job&, const ColdMap&,
                                                const PlaceOptions&, double best, PlaceCounts&);

}  // namespace triplepoint::advise
