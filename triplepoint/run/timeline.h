// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/instant.h"
#include "triplepoint/base/units.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::run {

/// What a span is. Kernel kinds first: they are what "kernel seconds" sum up.
enum class SpanKind : uint8_t {
  compute,        // GEMM and attention
  memory,         // norms, elementwise, copies, optimizer
  communication,  // a collective or point-to-point kernel, waiting included
  other,          // unrecognized kernel
  host,           // launch, data loading, Python
  pass,           // encloses one forward, recompute or backward pass
  step
};
inline constexpr int span_kind_count = 7;

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
};

/// Spans that repeat: a pass is a list of pieces, each a run of spans played `repeat` times in a row.
/// Times inside are relative to the start of one repetition.
struct PatternPiece {
  std::vector<Span> spans;  // rank, stage, microbatch of the instance apply
  int32_t repeat = 1;
  Seconds length;           // of one repetition
  int32_t first_layer = -1; // repetition i works on layer first_layer + i
};
struct Pattern {
  std::string name;  // "forward", "backward"
  std::vector<PatternPiece> pieces;
  Seconds length() const;
};
struct PatternInstance {
  Instant begin;
  int32_t pattern = 0;
  int32_t rank = 0, stage = -1, microbatch = -1;
};

/// What ran when, on every rank: single spans, and instances of patterns that expand to spans.
/// A measured timeline has no patterns; a simulated one keeps a step of 1,024 GPUs small with them.
struct Timeline {
  std::vector<SpanType> types;
  std::vector<Span> spans;  // sorted by (rank, begin)
  std::vector<Pattern> patterns;
  std::vector<PatternInstance> instances;  // sorted by (rank, begin)
  int32_t num_ranks = 0;

  int32_t intern(const SpanType&);
  bool empty() const { return spans.empty() && instances.empty(); }
};

/// Calls visit(const Span&) for every span of `rank` (all ranks: -1), instances expanded, in order of begin
/// inside each instance. Order over ranks is ascending.
template <class Visit>
void for_each_span(const Timeline&, int32_t rank, Visit&& visit);

/// The same timeline with every instance expanded.
Timeline expand(const Timeline&);

}  // namespace triplepoint::run

#include "triplepoint/run/timeline_impl.h"
