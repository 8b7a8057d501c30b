// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/builder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/trace/order.h"

namespace triplepoint::trace {

namespace {

template <class Enum>
int number_of(const std::optional<Enum>& value) {
  return value ? static_cast<int>(*value) : -1;
}

}  // namespace

int32_t TypeIndex::intern(std::vector<run::SpanType>& types, const run::SpanType& type) {
  const std::string key = fmt::format(
      "{}/{}/{}/{}/{}/{}", type.name, static_cast<int>(type.kind), static_cast<int>(type.stream),
      static_cast<int>(type.op_class), number_of(type.collective), number_of(type.group));
  const auto [found, is_new] = index_.try_emplace(key, static_cast<int32_t>(types.size()));
  if (is_new) types.push_back(type);
  return found->second;
}

int32_t TraceBuilder::type(const run::SpanType& type) {
  return types_.intern(trace_.timeline.types, type);
}

int32_t TraceBuilder::lane(const run::Lane& lane) {
  const auto [found, is_new] =
      lanes_.try_emplace(std::tuple(lane.rank, lane.stream, lane.number, lane.name),
                         static_cast<int32_t>(trace_.timeline.lanes.size()));
  if (is_new) trace_.timeline.lanes.push_back(lane);
  return found->second;
}

int32_t TraceBuilder::communicator(const run::Communicator& communicator) {
  std::vector<run::Communicator>& all = trace_.timeline.communicators;
  const auto found = std::find(all.begin(), all.end(), communicator);
  if (found != all.end()) return static_cast<int32_t>(found - all.begin());
  all.push_back(communicator);
  return static_cast<int32_t>(all.size()) - 1;
}

void TraceBuilder::add(const run::Span& span, const run::SpanDetail& detail) {
  trace_.timeline.spans.push_back(span);
  trace_.timeline.details.push_back(detail);
}

void TraceBuilder::skip(std::string reason) {
  note_skipped(trace_.skipped, std::move(reason));
}

void TraceBuilder::truncated(std::string reason) {
  trace_.skipped.truncated = true;
  note_reason(trace_.skipped, std::move(reason));
}

Trace TraceBuilder::finish(std::optional<int64_t> unix_ns_of_zero) && {
  settle(trace_, unix_ns_of_zero);
  return std::move(trace_);
}

void note_reason(Skipped& skipped, std::string reason) {
  constexpr size_t most = 8;
  std::vector<std::string>& all = skipped.reasons;
  if (all.size() < most && std::find(all.begin(), all.end(), reason) == all.end())
    all.push_back(std::move(reason));
}

void note_skipped(Skipped& skipped, std::string reason) {
  ++skipped.events;
  note_reason(skipped, std::move(reason));
}

namespace {

/// The begin that the epoch moves to: the earliest, but for strays a timeline cannot hold. A clock
/// that was not set gives a few events near zero; the median is among the sound ones.
int64_t epoch_of(const std::vector<run::Span>& spans, int64_t reach) {
  const auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  const auto [least, most] =
      std::minmax_element(spans.begin(), spans.end(),
                          [](const run::Span& a, const run::Span& b) { return a.begin < b.begin; });
  const int64_t first = least->begin.nanoseconds();
  if (distance(first, most->begin.nanoseconds()) < static_cast<uint64_t>(reach)) return first;
  std::vector<int64_t> begins;
  begins.reserve(spans.size());
  for (const run::Span& span : spans)
    begins.push_back(span.begin.nanoseconds());
  const int64_t center = upper_median(begins);
  int64_t epoch = center;
  for (const int64_t begin : begins)
    if (begin < epoch && distance(begin, center) < static_cast<uint64_t>(reach)) epoch = begin;
  return epoch;
}

/// Drops what does not fit between the epoch and its reach; moves the rest to the epoch.
void move_to(run::Timeline& timeline, int64_t epoch, int64_t reach, Skipped& skipped) {
  const bool with_details = !timeline.details.empty();
  const auto reaches = [&](Instant at) {
    const int64_t ns = at.nanoseconds();
    return ns >= epoch &&
           static_cast<uint64_t>(ns) - static_cast<uint64_t>(epoch) <= static_cast<uint64_t>(reach);
  };
  size_t kept = 0;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    run::Span& span = timeline.spans[i];
    if (span.end < span.begin || !reaches(span.begin) || !reaches(span.end)) {
      note_skipped(skipped, "an event is years away from the others, or ends before it begins");
      continue;
    }
    span.begin = Instant(span.begin.nanoseconds() - epoch);
    span.end = Instant(span.end.nanoseconds() - epoch);
    if (with_details && kept != i) timeline.details[kept] = timeline.details[i];
    if (kept != i) timeline.spans[kept] = span;
    ++kept;
  }
  timeline.spans.resize(kept);
  if (with_details) timeline.details.resize(kept);
}

}  // namespace

void settle(Trace& trace, std::optional<int64_t> unix_ns_of_zero) {
  constexpr int64_t reach = int64_t{30} * 365 * 86400 * 1'000'000'000;  // what a run file holds
  run::Timeline& timeline = trace.timeline;
  int64_t epoch = 0;
  if (!timeline.spans.empty()) {
    epoch = epoch_of(timeline.spans, reach);
    move_to(timeline, epoch, reach, trace.skipped);
  }
  trace.epoch_in_file_ns = epoch;
  if (unix_ns_of_zero) trace.epoch_unix_ns = *unix_ns_of_zero + epoch;
  for (const run::Span& span : timeline.spans)
    timeline.num_ranks = std::max(timeline.num_ranks, span.rank + 1);
  sort_spans(timeline);
}

}  // namespace triplepoint::trace
