// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// A series as a trace viewer's counter: who owns it, what it is called, in which unit.
struct TraceCounter {
  std::optional<int32_t> rank;  // the rank on that device; absent: none
  std::string owner;            // "device 3", "node 0": what to call it without a rank
  std::string name;             // "power", "die"
  std::string unit;             // "W", "C", "MHz"; empty if the signal's name has none
};
TraceCounter describe_counter(const Run&, const Series&);

/// How much of a timeline a trace viewer gets.
enum class TraceDetail {
  automatic,  // kernels, if there are at most two million spans
  passes,     // one slice per instance of a pattern, and the single spans
  kernels     // every span
};

/// How many spans a timeline stands for, instances expanded.
int64_t count_spans(const Timeline&);

/// One slice as trace viewers draw them. Slices of one track never overlap; those of a lane (see
/// Timeline::lanes) may lie inside each other, as calls of a thread do.
struct TraceSlice {
  Span span;  // its type counts on behind the timeline's types: types.size() + pattern is a pass
  int32_t track = 0;                   // of its rank, see TraceTracks::track_name
  const SpanDetail* detail = nullptr;  // of a span whose lane is known
};

/// Sorts a timeline's spans into tracks: per rank its passes, and one track per stream; where spans
/// of one stream overlap, further tracks of that stream. Spans whose lane is known are on a track
/// of the lane's name instead.
class TraceTracks {
 public:
  TraceTracks(const Run&, TraceDetail);

  /// The slices of a rank, track by track in order of time.
  std::vector<TraceSlice> slices_of(int32_t rank) const;

  std::string rank_name(int32_t rank) const;                  // "rank 3 (node 0, gpu 3, stage 1)"
  std::string track_name(int32_t rank, int32_t track) const;  // "compute", "stream 7", "host 2"
  std::string slice_name(int32_t type) const;
  int32_t num_slice_names() const;
  /// Nanoseconds since the earliest event of the run; viewers know no negative times.
  uint64_t since_first(Instant) const;

 private:
  std::vector<int32_t> lanes_of(int32_t rank) const;

  const Run& run_;
  bool kernels_ = true;
  int64_t first_ = 0;
};

}  // namespace triplepoint::run
