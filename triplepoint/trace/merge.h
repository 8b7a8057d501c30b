// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

struct NamedTrace {
  std::string name;  // of its file
  Trace trace;
};

/// The rank in a file's name: "rank-3.json", "ranks_12", "worker7_step_12". Nothing if none is.
std::optional<int32_t> rank_in_name(std::string_view name);

/// Traces of different ranks as one: ranks as the files or their names say, else in numeric order
/// of the names; one epoch, the earliest; equal communicators are one.
Result<Trace> merge(std::vector<NamedTrace>);

}  // namespace triplepoint::trace
