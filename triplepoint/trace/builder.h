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
  int32_t lane(const run::Lane&);
  int32_t communicator(const run::Communicator&);
  void add(const run::Span&, const run::SpanDetail&);
  /// Counts an event that cannot be used; the first few reasons are kept.
  void skip(std::string reason);
  void truncated(std::string reason);

  std::map<std::string, std::string>& facts() { return trace_.facts; }

  /// `unix_ns_of_zero`: Unix time of the instant 0 in which the spans were given, if known.
  Trace finish(std::optional<int64_t> unix_ns_of_zero) &&;

 private:
  Trace trace_;
  TypeIndex types_;
  std::map<std::tuple<int32_t, run::Stream, int64_t, std::string>, int32_t> lanes_;
};

/// Keeps the first few distinct reasons; note_skipped also counts an event.
void note_reason(Skipped&, std::string reason);
void note_skipped(Skipped&, std::string reason);

/// Sorts, moves the epoch to the first begin, sets num_ranks. Spans that lie more than 30 years
/// from it, or end before they begin, are skipped and counted. What every reader ends with.
void settle(Trace&, std::optional<int64_t> unix_ns_of_zero);

struct NamedTrace {
  std::string name;  // of its file
  Trace trace;
};

/// The rank in a file's name: "rank-3.json", "ranks_12", "worker7_step_12". Nothing if none is.
std::optional<int32_t> rank_in_name(std::string_view name);

/// Traces of different ranks as one: ranks as the files or their names say, else in numeric order
/// of the names; one epoch, the earliest; equal communicators are one.
Result<Trace> merge(std::vector<NamedTrace>);

}  // namespace triplepoint::trace
