// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/op.h"

namespace triplepoint::run {

/// What a span is. Kernel kinds first: they are what "kernel seconds" sum up.
enum class SpanKind : uint8_t {
  compute,        // GEMM and attention
  memory,         // norms, elementwise, optimizer
  communication,  // a collective or point-to-point kernel, waiting included
  other,          // unrecognized kernel
  host,           // launch, data loading, Python
  pass,           // encloses one forward, recompute or backward pass
  step,
  copy  // memcpy and memset on a device; last, so that stored runs keep their numbers
};
inline constexpr int span_kind_count = 8;

/// Which stream of the device (or the host) a span ran on.
enum class Stream : uint8_t { compute, communication, host };

/// What does not change from one occurrence to the next. Interned: spans refer to it by index.
struct SpanType {
  std::string name;  // kernel or op name, as the producer says it
  SpanKind kind = SpanKind::other;
  Stream stream = Stream::compute;
  spec::OpClass op_class = spec::OpClass::elementwise;
  std::optional<spec::Collective> collective;
  std::optional<spec::GroupKind> group;
  friend bool operator==(const SpanType&, const SpanType&) = default;
};

/// One interval on one rank. Absent numbers are -1 in the columns of the store and optional here.
struct Span {
  Instant begin, end;
  int32_t type = 0;
  int32_t rank = 0;
  int32_t stage = -1, microbatch = -1, layer = -1;  // -1: does not apply
  Seconds wait;  // communication: part of the span before the last peer arrived
  Bytes bytes;   // communication: payload; memory kernels: HBM traffic
  Flops flops;
  friend bool operator==(const Span&, const Span&) = default;
};

/// A queue of one rank, as a profiler tells them apart: a device stream or a host thread.
struct Lane {
  int32_t rank = 0;
  Stream stream = Stream::compute;
  int64_t number = 0;  // stream or thread number
  std::string name;    // as the profiler says it: "stream 7", "thread 1234 (python)"
  friend bool operator==(const Lane&, const Lane&) = default;
};

/// Which end of a message a rank is; none: a collective, or not known.
enum class MessageEnd : uint8_t { none, sender, receiver };

/// A process group. Spans of one collective on different ranks share communicator and sequence.
/// Messages have one per group, direction and peer; their sequence counts on one rank only.
struct Communicator {
  std::string name;            // "default_pg", "dp group"
  std::vector<int32_t> ranks;  // empty: not known
  int32_t size = 0;            // 0: not known
  MessageEnd end = MessageEnd::none;
  int32_t peer = -1;  // rank at the other end of the messages; -1: not known, or a collective
  friend bool operator==(const Communicator&, const Communicator&) = default;
};

/// What a profiler knows of a span besides when it ran. -1: not known, does not apply.
struct SpanDetail {
  int32_t lane = -1;               // index into Timeline::lanes
  int32_t communicator = -1;       // index into Timeline::communicators
  int64_t sequence = -1;           // of the collective in its communicator
  int64_t correlation = -1;        // what a launch and its device span share, per rank
  int64_t blocks = -1;             // thread blocks of the grid
  int32_t threads_per_block = -1;  // 32 to a warp (64 on AMD)
  float occupancy = -1;            // per cent of the warps that fit, as the profiler estimates
  int64_t in_elements = -1, out_elements = -1;  // of the collective, on this rank
  friend bool operator==(const SpanDetail&, const SpanDetail&) = default;
};

/// Spans that repeat: a pass is a list of pieces, each a run of spans repeated `repeat` times in a
/// row. Times inside are relative to the start of one repetition.
struct PatternPiece {
  std::vector<Span> spans;  // rank, stage, microbatch of the instance apply
  int32_t repeat = 1;
  Seconds length;            // of one repetition
  int32_t first_layer = -1;  // repetition i works on layer first_layer + i
  friend bool operator==(const PatternPiece&, const PatternPiece&) = default;
};
struct Pattern {
  std::string name;  // "forward", "backward"
  std::vector<PatternPiece> pieces;
  Seconds length() const;  // sum of repeat * length, each length to the whole nanosecond
  friend bool operator==(const Pattern&, const Pattern&) = default;
};
struct PatternInstance {
  Instant begin;
  int32_t pattern = 0;
  int32_t rank = 0, stage = -1, microbatch = -1;
  friend bool operator==(const PatternInstance&, const PatternInstance&) = default;
};

/// Whose words the names of the types are: our ops ("qkv"), or device kernels as a profiler spells
/// them ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL").
enum class NameKind : uint8_t { ops, kernels };

/// What ran when, on every rank: single spans, and instances of patterns that expand to spans.
/// A measured timeline has no patterns; a simulated one keeps a step of 1,024 GPUs small with them.
struct Timeline {
  std::vector<SpanType> types;
  std::vector<Span> spans;  // sorted by (rank, begin)
  std::vector<Pattern> patterns;
  std::vector<PatternInstance> instances;  // sorted by (rank, begin)
  int32_t num_ranks = 0;
  NameKind names = NameKind::ops;

  // What was traced knows more; a simulated timeline has none of these.
  std::vector<Lane> lanes;
  std::vector<Communicator> communicators;
  std::vector<SpanDetail> details;  // empty, or one per entry of `spans`

  int32_t intern(const SpanType&);
  bool empty() const { return spans.empty() && instances.empty(); }
  friend bool operator==(const Timeline&, const Timeline&) = default;
};

/// Calls visit(const Span&) for every span of `rank` (all ranks: -1), instances expanded, in order
/// of begin inside each instance. Order over ranks is ascending. Inside a rank, single spans and
/// instances take turns by their begin, a single span before an instance that begins at the same
/// time. Allocates nothing.
///
/// Repetition i of a piece begins at begin of the piece + i * length; lengths count in whole
/// nanoseconds, so that what is computed once per pattern equals what is computed span by span.
/// Spans of a pattern take rank, stage and microbatch of the instance; those that lie outside [0,
/// length] of their piece are allowed.
void for_each_span(const Timeline&, int32_t rank, auto&& visit);

/// Ranks that have spans or instances.
std::set<int32_t> ranks_of(const Timeline&);

/// The same timeline with every instance expanded. Details are kept only if there was none.
Timeline expand(const Timeline&);

/// The order of spans and instances.
inline constexpr auto by_rank_and_begin = [](const auto& a, const auto& b) {
  return std::pair(a.rank, a.begin) < std::pair(b.rank, b.begin);
};

/// Sorts spans (with their details) and instances by (rank, begin); equal ones keep their order.
/// Producers call it once at the end.
void sort(Timeline&);

/// What is wrong with a timeline, as a sentence: unsorted, an index out of range, a span that ends
/// before it begins. Nothing if it is sound. Every function over timelines demands a sound one.
std::optional<std::string> find_fault(const Timeline&);

/// Only what begins in [begin, end): warm-up and the steps around are left out.
Timeline clip(const Timeline&, Instant begin, Instant end);

/// First begin to last end, instances included; nothing if the timeline is empty.
struct Extent {
  Instant begin, end;
  friend bool operator==(const Extent&, const Extent&) = default;
};
std::optional<Extent> extent(const Timeline&);

/// A length in the whole nanoseconds in which patterns count.
inline int64_t whole_nanoseconds(Seconds length) {
  return (Instant() + length).nanoseconds();
}

namespace detail {

void visit_piece(const PatternPiece& piece, const PatternInstance& instance, int64_t begin,
                 auto&& visit) {
  const int64_t length = whole_nanoseconds(piece.length);
  for (int32_t i = 0; i < piece.repeat; ++i, begin += length) {
    for (const Span& relative : piece.spans) {
      Span span = relative;
      span.begin = Instant(begin + relative.begin.nanoseconds());
      span.end = Instant(begin + relative.end.nanoseconds());
      span.rank = instance.rank;
      span.stage = instance.stage;
      span.microbatch = instance.microbatch;
      if (piece.first_layer >= 0) span.layer = piece.first_layer + i;
      visit(std::as_const(span));
    }
  }
}

void visit_instance(const Timeline& timeline, const PatternInstance& instance, auto&& visit) {
  int64_t begin = instance.begin.nanoseconds();
  for (const PatternPiece& piece : timeline.patterns[as_size(instance.pattern)].pieces) {
    visit_piece(piece, instance, begin, visit);
    begin += piece.repeat * whole_nanoseconds(piece.length);
  }
}

/// Where the items of one rank lie in a vector that is sorted by rank. All of them for -1.
template <class Item>
std::pair<const Item*, const Item*> items_of_rank(const std::vector<Item>& items, int32_t rank) {
  const Item* first = items.data();
  const Item* last = first + items.size();
  if (rank < 0) return {first, last};
  const auto before = [](const Item& item, int32_t r) { return item.rank < r; };
  const Item* begin = std::lower_bound(first, last, rank, before);
  return {begin, std::lower_bound(begin, last, rank + 1, before)};
}

}  // namespace detail

void for_each_span(const Timeline& timeline, int32_t rank, auto&& visit) {
  auto [span, spans_end] = detail::items_of_rank(timeline.spans, rank);
  auto [instance, instances_end] = detail::items_of_rank(timeline.instances, rank);
  const auto span_comes_first = [](const Span& s, const PatternInstance& i) {
    return std::pair(s.rank, s.begin) <= std::pair(i.rank, i.begin);
  };
  while (span != spans_end || instance != instances_end) {
    if (instance == instances_end || (span != spans_end && span_comes_first(*span, *instance)))
      visit(*span++);
    else
      detail::visit_instance(timeline, *instance++, visit);
  }
}

}  // namespace triplepoint::run
