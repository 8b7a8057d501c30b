// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "triplepoint/metrics/trace_tables/options.h"

namespace triplepoint::metrics {

// One question each; trace_<question>.cpp.
Result<TraceReport> trace_breakdown(const TraceOptions&);
Result<TraceReport> trace_overlap(const TraceOptions&);  // trace_breakdown.cpp
Result<TraceReport> trace_comm(const TraceOptions&);
Result<TraceReport> trace_stragglers(const TraceOptions&);
Result<TraceReport> trace_critical_path(const TraceOptions&);
Result<TraceReport> trace_diff(const TraceOptions&);
Result<TraceReport> trace_merge(const TraceOptions&);
Result<TraceReport> trace_join(const TraceOptions&);

}  // namespace triplepoint::metrics
