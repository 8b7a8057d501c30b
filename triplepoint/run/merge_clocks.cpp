// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/merge_clocks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

namespace triplepoint::run {

namespace {

// Fewer events than this do not outvote the wall clocks.
constexpr size_t least_events = 3;
// Nodes whose wall clocks differ by more are not synchronized, but neither are steps that far
// apart the same.
constexpr int64_t most_correction_ns = 5'000'000'000;

std::optional<std::string> fact(const Run& run, const char* key) {
  const auto found = run.manifest.facts.find(key);
  if (found == run.manifest.facts.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<int64_t> number_fact(const Run& run, const char* key) {
  const auto text = fact(run, key);
  if (!text) return std::nullopt;
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

/// Where instant 0 of one lies on the time line of the other, if one kernel ran both.
std::optional<int64_t> offset_on_same_kernel(const Run& reference, const Run& other) {
  const auto here = fact(reference, "boot_id"), there = fact(other, "boot_id");
  const auto epoch_here = number_fact(reference, "epoch_monotonic_ns"),
             epoch_there = number_fact(other, "epoch_monotonic_ns");
  if (!here || here != there || !epoch_here || !epoch_there) return std::nullopt;
  return *epoch_there - *epoch_here;
}

/// Wall clock at instant 0, and how far the anchors disagree about it.
struct WallClock {
  int64_t unix_ns = 0, wander_ns = 0;
};
std::optional<WallClock> wall_clock_of(const Run& run) {
  std::vector<int64_t> zeros;
  for (const ClockAnchor& anchor : run.manifest.anchors)
    zeros.push_back(anchor.unix_ns - anchor.instant.nanoseconds());
  if (zeros.empty() && run.manifest.epoch_unix_ns) zeros.push_back(*run.manifest.epoch_unix_ns);
  if (zeros.empty()) return std::nullopt;
  const auto [least, most] = std::minmax_element(zeros.begin(), zeros.end());
  return WallClock{.unix_ns = upper_median(zeros), .wander_ns = *most - *least};
}

using EventEnds = std::map<std::pair<std::string, int>, std::vector<int64_t>>;

/// When the n-th collective of a name and group ended, by the last rank of the recording.
EventEnds collective_ends(const Run& run) {
  std::map<std::tuple<std::string, int, int32_t>, size_t> seen;  // by rank
  EventEnds ends;
  for (const Span& span : run.timeline.spans) {
    const SpanType& type = run.timeline.types[static_cast<size_t>(span.type)];
    if (type.kind != SpanKind::communication) continue;
    const int group = type.group ? static_cast<int>(*type.group) : -1;
    const size_t number = seen[{type.name, group, span.rank}]++;
    std::vector<int64_t>& list = ends[{type.name, group}];
    if (number >= list.size()) list.resize(number + 1, INT64_MIN);
    list[number] = std::max(list[number], span.end.nanoseconds());
  }
  return ends;
}

/// Distances of what should have ended together. Groups of which the recordings saw different
/// numbers are not the same group.
std::vector<int64_t> collective_distances(const Run& reference, const Run& other) {
  const EventEnds here = collective_ends(reference), there = collective_ends(other);
  std::vector<int64_t> distances;
  for (const auto& [event, ends] : here) {
    const auto found = there.find(event);
    if (found == there.end() || found->second.size() != ends.size()) continue;
    for (size_t i = 0; i < ends.size(); ++i)
      distances.push_back(ends[i] - found->second[i]);
  }
  return distances;
}

std::vector<int64_t> step_distances(const Run& reference, const Run& other) {
  std::vector<int64_t> distances;
  if (reference.steps.size() != other.steps.size()) return distances;
  for (size_t i = 0; i < reference.steps.size(); ++i)
    distances.push_back(reference.steps[i].end.nanoseconds() - other.steps[i].end.nanoseconds());
  return distances;
}

/// 1.48 times the median distance from a value: the standard deviation of a normal distribution,
/// which a few outliers do not move.
Seconds spread_around(std::vector<int64_t> values, int64_t middle) {
  for (int64_t& value : values)
    value = std::abs(value - middle);
  return 1.4826 * static_cast<double>(upper_median(std::move(values))) * unit::ns;
}

/// Moves to where the events coincide, if they say that clearly.
void refine(Alignment& alignment, AlignedBy by, const std::vector<int64_t>& distances) {
  const int64_t offset = std::llround(alignment.offset / unit::ns);
  const int64_t better = upper_median(distances);
  if (std::abs(better - offset) > most_correction_ns) return;
  const Seconds spread = spread_around(distances, better);
  const Seconds moved = static_cast<double>(std::abs(better - offset)) * unit::ns;
  alignment.num_events = static_cast<int64_t>(distances.size());
  alignment.by = by;
  // Steps that end whenever they like say nothing about clocks.
  const bool is_clear = spread < moved || by == AlignedBy::collectives;
  alignment.residual = is_clear ? spread : spread_around(distances, offset);
  if (is_clear) alignment.offset = static_cast<double>(better) * unit::ns;
}

}  // namespace

std::string host_of(const Run& recording) {
  for (const std::string& host : recording.manifest.hosts)
    if (!host.empty()) return host;
  return recording.manifest.name;
}

Result<Alignment> align(const Run& reference, const Run& other) {
  Alignment alignment{.host = host_of(other)};
  const auto collectives = collective_distances(reference, other);
  const auto steps = step_distances(reference, other);
  if (const auto offset = offset_on_same_kernel(reference, other)) {
    alignment.offset = static_cast<double>(*offset) * unit::ns;
    alignment.num_events = static_cast<int64_t>(collectives.size());
    if (collectives.size() >= least_events)
      alignment.residual = spread_around(collectives, *offset);
    return alignment;
  }
  const auto here = wall_clock_of(reference), there = wall_clock_of(other);
  if (!here || !there)
    return error(
        fmt::format("{} has no wall clock (it was not recorded, or by something else); "
                    "merge recordings of triplepoint record",
                    here ? host_of(other) : host_of(reference)));
  alignment.by = AlignedBy::wall_clock;
  alignment.offset = static_cast<double>(there->unix_ns - here->unix_ns) * unit::ns;
  alignment.residual = static_cast<double>(here->wander_ns + there->wander_ns) * unit::ns;
  if (collectives.size() >= least_events)
    refine(alignment, AlignedBy::collectives, collectives);
  else if (steps.size() >= least_events)
    refine(alignment, AlignedBy::steps, steps);
  return alignment;
}

}  // namespace triplepoint::run
