// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

/// The event, with the comma before it, behind which a rank begins in a file of
/// write_merged_kineto.
std::string merged_rank_event(int32_t rank);

/// A file of write_merged_kineto, by its first bytes.
bool looks_like_merged_kineto(std::string_view head);

/// The trace of each rank in it.
Result<std::vector<NamedTrace>> read_merged_kineto(Input&, const ReadOptions&);

}  // namespace triplepoint::trace
