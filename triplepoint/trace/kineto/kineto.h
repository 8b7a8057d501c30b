// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// The PyTorch profiler's JSON of any year. docs/traces.md lists the vintages.
bool looks_like_kineto(std::string_view head);
Result<Trace> read_kineto(Input&, const ReadOptions&);

}  // namespace triplepoint::trace
