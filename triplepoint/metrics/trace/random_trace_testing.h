// SPDX-License-Identifier: Apache-2.0
// Random traced timelines, for tests.
#pragma once

#include <cstdint>

#include "triplepoint/base/random.h"

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics::testing {

/// Draws whole numbers, one after the other.
class Rng {
 public:
  explicit Rng(uint64_t seed) : seed_(seed) {}
  int64_t upto(int64_t most) {
    return static_cast<int64_t>(random_uniform({.seed = seed_}, draw_++) * as_real(most + 1));
  }

 private:
  uint64_t seed_, draw_ = 0;
};

/// Type numbers of random_trace.
enum TypeNumber : int32_t { gemm, norm, unnamed, all_reduce, memcpy_, launch, forward, type_count };

inline void add_types(run::Timeline& timeline) {
  using run::SpanKind;
  using run::Stream;
  timeline.intern({.name = "ampere_gemm", .kind = SpanKind::compute});
  timeline.intern({.name = "layer_norm_kernel", .kind = SpanKind::memory});
  timeline.intern({.name = "mystery", .kind = SpanKind::other});
  timeline.intern({.name = "ncclDevKernel_AllReduce",
                   .kind = SpanKind::communication,
                   .stream = Stream::communication,
                   .collective = spec::Collective::all_reduce});
  timeline.intern({.name = "Memcpy HtoD", .kind = SpanKind::copy});
  timeline.intern({.name = "cudaLaunchKernel", .kind = SpanKind::host, .stream = Stream::host});
  timeline.intern({.name = "forward", .kind = SpanKind::pass, .stream = Stream::host});
  timeline.names = run::NameKind::kernels;
}

/// A few ranks, each with two device streams and a host thread; times are small, so that a test may
/// look at every nanosecond. Most device spans have been launched, some long before they ran, some
/// late; some launches are not in the trace.
inline run::Timeline random_trace(uint64_t seed) {
  Rng rng(seed);
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = static_cast<int32_t>(1 + rng.upto(2));
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    const auto lane = static_cast<int32_t>(timeline.lanes.size());
    timeline.lanes.push_back({.rank = rank, .number = 7, .name = "stream 7"});
    timeline.lanes.push_back(
        {.rank = rank, .stream = run::Stream::communication, .number = 20, .name = "stream 20"});
    timeline.lanes.push_back(
        {.rank = rank, .stream = run::Stream::host, .number = 1, .name = "thread 1"});
    const int64_t spans = rng.upto(14);
    for (int64_t i = 0; i < spans; ++i) {
      const auto type = static_cast<int32_t>(rng.upto(type_count - 1));
      const int64_t begin = rng.upto(180), length = rng.upto(20);
      const bool on_host = type == launch || type == forward;
      const int64_t correlation = rank * 100 + i;
      timeline.spans.push_back({Instant(begin), Instant(begin + length), type, rank});
      timeline.details.push_back({.lane = lane + (on_host ? 2 : static_cast<int32_t>(rng.upto(1))),
                                  .correlation = type == forward ? -1 : correlation});
      if (on_host || rng.upto(4) == 0) continue;
      const int64_t called = begin - rng.upto(25);
      timeline.spans.push_back({Instant(called), Instant(called + rng.upto(6)), launch, rank});
      timeline.details.push_back({.lane = lane + 2, .correlation = correlation});
    }
  }
  run::sort(timeline);
  return timeline;
}

}  // namespace triplepoint::metrics::testing
