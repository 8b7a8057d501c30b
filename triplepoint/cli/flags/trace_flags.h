// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/cli/command.h"
#include "triplepoint/trace_report/analyses.h"

namespace triplepoint::cli {

/// The flags that say which part of traces is looked at, and how they are read: --ranks, --step,
/// --rules, --align, -j, --memory, --no-cache.
Arguments trace_flags(trace_report::TraceOptions&);

/// What the parser cannot refuse.
Result<void> check_trace_flags(const trace_report::TraceOptions&);

}  // namespace triplepoint::cli
