// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/base/result.h"

#include "triplepoint/metrics/trace_tables/analyses.h"

namespace triplepoint::study {

using TraceAnalysis = Result<metrics::TraceReport> (*)(const metrics::TraceOptions&);

/// An analysis of each experiment of a result tree, or of several experiments: the table
/// "experiments" with a row for each (means over its traced ranks; what has no traces says why),
/// and the tables of all of them with a column for the experiment. Nothing if the files are neither
/// a tree nor several experiments. An error where the analysis is about one timeline (it names
/// experiments to choose from), and where no experiment can be read.
Result<std::optional<metrics::TraceReport>> trace_experiments(const metrics::TraceOptions&,
                                                              TraceAnalysis);

}  // namespace triplepoint::study
