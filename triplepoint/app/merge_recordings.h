// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/merge.h"

#include "triplepoint/trace_report/analyses.h"

namespace triplepoint::app {

/// Whether whole recordings, or a folder of them, are to be one run.
bool are_recordings(const trace_report::TraceOptions&);

/// Recordings of one job's nodes as one run, each by the name of its file.
Result<run::Merged> merge_files(const std::vector<Path>& files);

/// `trace merge` of recordings: their run is written, and how each node's clock was aligned is
/// told. Of a folder all runs but the one that is written, and older ones that record has kept.
Result<trace_report::TraceReport> merge_recordings(const trace_report::TraceOptions&);

}  // namespace triplepoint::app
