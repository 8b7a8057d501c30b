// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/random.h"

#include "triplepoint/run/issued.h"
#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

// Support of the tests: timelines as profilers give them, and whether two tell the same.

/// The spans whose stamps are sound.
inline std::vector<run::Span> timed_spans(const run::Timeline& timeline) {
  std::vector<run::Span> all = timeline.spans;
  std::erase_if(all, [&](const run::Span& span) {
    return run::is_untimed(timeline.types[as_size(span.type)]);
  });
  return all;
}

/// What runs in a sample: a launch, a product, an elementwise kernel, collectives, a copy, a step.
inline std::vector<run::SpanType> sample_types() {
  using namespace run;
  return {
      {.name = "cudaLaunchKernel", .kind = SpanKind::host, .stream = Stream::host},
      {.name = "ampere_bf16_gemm \"a\"\\b<float, 3>",
       .kind = SpanKind::compute,
       .op_class = spec::OpClass::gemm},
      {.name = "vectorized_elementwise_kernel", .kind = SpanKind::memory},
      {.name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
       .kind = SpanKind::communication,
       .stream = Stream::communication,
       .op_class = spec::OpClass::communication,
       .collective = spec::Collective::all_reduce,
       .group = spec::GroupKind::data},
      {.name = "Memcpy HtoD (Pinned -> Device)", .kind = SpanKind::copy},
      {.name = "ProfilerStep#3", .kind = SpanKind::step, .stream = Stream::host},
      {.name = "ncclDevKernel_SendRecv",
       .kind = SpanKind::communication,
       .stream = Stream::communication,
       .op_class = spec::OpClass::communication,
       .collective = spec::Collective::send_recv},
  };
}

/// Host, compute and communication lanes on every rank; launches and their kernels; collectives of
/// two groups. Equal seeds, equal timelines. Begins at 0.
inline run::Timeline sample_timeline(uint64_t seed, int32_t ranks = 2, int kernels = 40) {
  using namespace run;
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random_uniform({seed, 1}, draws++) * as_real(n));
  };
  Timeline t;
  t.num_ranks = ranks;
  t.names = NameKind::kernels;
  t.types = sample_types();
  const std::vector<int32_t> all = numbered(ranks, [](int32_t rank) { return rank; });
  t.communicators = {{.name = "default_pg", .ranks = all, .size = ranks},
                     {.name = "dp group", .size = ranks}};
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto first = static_cast<int32_t>(t.lanes.size());
    t.lanes.push_back({rank, Stream::host, 4711 + rank, "thread 4711 (python)"});
    t.lanes.push_back({rank, Stream::compute, 7, "device 0 stream 7"});
    t.lanes.push_back({rank, Stream::compute, 20, "device 0 stream 20"});
    int64_t host = below(50), compute = host, communication = host;
    t.spans.push_back({Instant(host), Instant(host + 40'000'003), 5, rank});
    t.details.push_back({.lane = first});
    for (int i = 0; i < kernels; ++i) {
      const auto type = static_cast<int32_t>(std::array{1, 2, 3, 4, 6}[as_size(below(5))]);
      const bool talks = type == 3 || type == 6;
      const int64_t launch = host + 100 + below(9000), call = 1000 + below(8000);
      host = launch + call;
      t.spans.push_back({Instant(launch), Instant(host), 0, rank});
      t.details.push_back({.lane = first, .correlation = 100 + i});
      int64_t& queue = talks ? communication : compute;
      const int64_t begin = std::max(queue, launch + call / 2) + 1 + below(700);
      queue = begin + 500 + below(400'000);
      Span span{Instant(begin), Instant(queue), type, rank};
      SpanDetail detail{.lane = first + (talks ? 2 : 1), .correlation = 100 + i};
      if (talks) {
        detail.communicator = static_cast<int32_t>(below(2));
        detail.sequence = i;
        detail.in_elements = detail.out_elements = 512 * (1 + below(1000));
        span.bytes = as_real(detail.in_elements * 2) * unit::B;
      } else if (type == 4) {
        span.bytes = as_real(1 + below(1 << 20)) * unit::B;
      } else {
        detail.blocks = 1 + below(5000);
        detail.threads_per_block = 256;
        detail.occupancy = static_cast<float>(below(101));
      }
      t.spans.push_back(span);
      t.details.push_back(detail);
    }
  }
  for (Span& span : t.spans)  // the first span of all begins at 0
    if (span.type == 5 && span.rank == 0) span.begin = Instant(0);
  sort(t);
  return t;
}

/// One line per span with all that is known of it, indices resolved; sorted. What two timelines
/// must share to be the same for a reader who does not see indices.
inline std::vector<std::string> described(const run::Timeline& t) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < t.spans.size(); ++i) {
    const run::Span& s = t.spans[i];
    const run::SpanType& type = t.types[as_size(s.type)];
    const run::SpanDetail d = t.details.empty() ? run::SpanDetail{} : t.details[i];
    std::string line = fmt::format(
        "{} {} {} {} kind {} stream {} class {} collective {} group {} at {} {} {} wait {} bytes "
        "{} flops {}",
        s.rank, s.begin.nanoseconds(), s.end.nanoseconds(), type.name, static_cast<int>(type.kind),
        static_cast<int>(type.stream), static_cast<int>(type.op_class),
        type.collective ? static_cast<int>(*type.collective) : -1,
        type.group ? static_cast<int>(*type.group) : -1, s.stage, s.microbatch, s.layer,
        s.wait / unit::s, s.bytes / unit::B, s.flops / unit::FLOP);
    if (d.lane >= 0) {
      const run::Lane& lane = t.lanes[as_size(d.lane)];
      line += fmt::format(" lane {} {} {}", static_cast<int>(lane.stream), lane.number, lane.name);
    }
    if (d.communicator >= 0) {
      const run::Communicator& c = t.communicators[as_size(d.communicator)];
      line += fmt::format(" in {} of {} ({} named)", c.name, c.size, c.ranks.size());
    }
    line += fmt::format(" {} {} {} {} {} {} {}", d.sequence, d.correlation, d.blocks,
                        d.threads_per_block, d.occupancy, d.in_elements, d.out_elements);
    lines.push_back(std::move(line));
  }
  std::ranges::sort(lines);
  return lines;
}

}  // namespace triplepoint::trace
