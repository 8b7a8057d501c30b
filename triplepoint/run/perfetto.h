// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"
#include "triplepoint/run/trace_tracks.h"

namespace triplepoint::run {

/// The run as a Perfetto trace (protobuf), for ui.perfetto.dev: ranks are processes, streams their
/// tracks, series counter tracks beside them. Slices carry microbatch, layer, bytes, flops and
/// waiting time as arguments. Source: Perfetto, protos/perfetto/trace/trace_packet.proto and
/// track_event/*.proto.
std::string perfetto_trace(const Run&, TraceDetail = TraceDetail::automatic);

}  // namespace triplepoint::run
