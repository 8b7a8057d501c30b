// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::report {

/// A run as Perfetto's protobuf trace, for ui.perfetto.dev: a process per rank, a thread per
/// stream, counters for power, temperature and clock below the rank.
///
/// Source: perfetto.dev, protos/perfetto/trace (trace_packet, track_event, track_descriptor).
std::string perfetto_trace(const run::Run& run);

}  // namespace triplepoint::report
