// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/metrics/trace_tables/options.h"

namespace triplepoint::metrics {

/// The tables that are shown: those the analysis shows unasked, or those of --show.
Result<std::vector<const DataTable*>> chosen_tables(const TraceReport&, const TraceOptions&);
Json report_json(const TraceReport&, const TraceOptions&);

}  // namespace triplepoint::metrics
