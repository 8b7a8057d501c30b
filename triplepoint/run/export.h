// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"
#include "triplepoint/run/timeline.h"
#include "triplepoint/run/trace_tracks.h"

namespace triplepoint::run {

/// The run as a Perfetto trace (protobuf), for ui.perfetto.dev: ranks are processes, streams their
/// tracks, series counter tracks beside them. Slices carry microbatch, layer, bytes, flops and
/// waiting time as arguments. Where details are known, arrows lead from a launch to its kernel,
/// along a collective from rank to rank, and from a send to its receive. Source: Perfetto,
/// protos/perfetto/trace/trace_packet.proto and track_event/*.proto.
std::string perfetto_trace(const Run&, TraceDetail = TraceDetail::automatic);

/// A file and what is in it.
struct NamedText {
  std::string name, text;
};

/// What tables call a kind of span: "communication".
std::string_view span_kind_name(SpanKind kind);

/// Tables with units in their column names: spans.csv (instances expanded), series.csv (one row per
/// value), devices.csv (what is known of each device over a step), steps.csv. An empty cell is
/// unknown.
std::vector<NamedText> csv_tables(const Run&);

/// Writes such files into a folder, which is made if need be.
Result<void> write_all(const std::vector<NamedText>&, const Path& folder);

}  // namespace triplepoint::run
