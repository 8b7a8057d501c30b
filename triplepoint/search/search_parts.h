// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/search/search.h"

namespace triplepoint::search {

/// What one shard of a search found, as a text for who merges them: a page of workers that share no
/// memory. A plan travels as its index, so both sides need the same space.
std::string write_part(const Found&);
Result<Found> parse_part(const Space&, std::string_view text);

}  // namespace triplepoint::search
