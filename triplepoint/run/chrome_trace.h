// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"
#include "triplepoint/run/trace_tracks.h"

namespace triplepoint::run {

/// The run in Chrome's trace event format (JSON), for chrome://tracing, Perfetto and scripts: ranks
/// are processes, streams their threads, series counters. Times in microseconds with three
/// decimals. Source: "Trace Event Format", Google, sections on complete, counter and metadata
/// events.
std::string chrome_trace(const Run&, TraceDetail = TraceDetail::automatic);

}  // namespace triplepoint::run
