// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// Types by their content, for those who have many.
class TypeIndex {
 public:
  /// Where `type` is in `types`, appended if it is new.
  int32_t intern(std::vector<run::SpanType>& types, const run::SpanType& type);

 private:
  std::unordered_map<std::string, int32_t> index_;  // by name and all the rest, as text
};

/// Collects a Trace span by span. Indices come from the intern functions; finish() sorts, moves the
/// epoch to the first span and drops what lies outside of what a timeline may hold.
///
/// For readers whose files are small; Kineto's has its own tables.
class TraceBuilder {
 public:
  explicit TraceBuilder(std::string format) { trace_.format = std::move(format); }

  int32_t type(const run::SpanType&);
  int32_t kernel(const std::string& name);  // its type; looked up once a name
  int32_t lane(const run::Lane&);
  int32_t communicator(const run::Communicator&);
  void add(const run::Span&, const run::SpanDetail&);
  // What was added so far, to be completed by what is read later.
  size_t size() const { return trace_.timeline.spans.size(); }
  run::Span& span_at(size_t i) { return trace_.timeline.spans[i]; }
  run::SpanDetail& detail_at(size_t i) { return trace_.timeline.details[i]; }
  const run::SpanType& type_at(int32_t i) const { return trace_.timeline.types[as_size(i)]; }
  /// Counts an event that cannot be used; the first few reasons are kept.
  void skip(std::string reason);
  void truncated(std::string reason);
  void note(std::string text) { note_reason(trace_.skipped, std::move(text)); }

  std::map<std::string, std::string>& facts() { return trace_.facts; }
  run::ProducerNumbers& numbers() { return trace_.numbers; }

  /// `unix_ns_of_zero`: Unix time of the instant 0 in which the spans were given, if known.
  Trace finish(std::optional<int64_t> unix_ns_of_zero) &&;

 private:
  Trace trace_;
  TypeIndex types_;
  std::unordered_map<std::string, int32_t> kernels_;
  std::map<std::tuple<int32_t, run::Stream, int64_t, std::string>, int32_t> lanes_;
};

/// Sorts, moves the epoch to the first begin, sets num_ranks. Spans whose stamps or lengths cannot
/// be right (plausible.h) are skipped and counted; with `one_at_a_time`, those of a stream do not
/// overlap. A trace without spans has no epoch. What every reader ends with.
void settle(Trace&, std::optional<int64_t> unix_ns_of_zero, bool one_at_a_time = false);

struct NamedTrace {
  std::string name;  // of its file
  Trace trace;
};

/// The rank in a file's name: "rank-3.json", "ranks_12", "worker7_step_12", "TP-3". Nothing if none
/// is: also in "worker-0_1201.1700000000.pt.trace.json", which is PyTorch's host_process.time.
std::optional<int32_t> rank_in_name(std::string_view name);
/// Where `pattern` has "{rank}" the name has that number; * is anything. Nothing if it does not
/// fit.
std::optional<int32_t> rank_by_pattern(std::string_view pattern, std::string_view name);

/// Traces of different ranks as one: ranks as the files say, else as their names do if no two say
/// the same, else in numeric order of the names, which is noted; one epoch, the earliest of those
/// with spans; equal communicators are one. A rank without spans keeps a lane.
Result<Trace> merge(std::vector<NamedTrace>);

}  // namespace triplepoint::trace
