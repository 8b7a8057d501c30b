// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/merge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

namespace triplepoint::run {
namespace {

// Fewer events than this do not outvote the wall clocks.
constexpr size_t least_events = 3;
// Nodes whose wall clocks differ by more are not synchronized, but neither are steps that far
// apart the same.
constexpr int64_t most_correction_ns = 5'000'000'000;

std::string kernel_of(const Run& run) {
  return value_at(run.manifest.facts, "boot_id").value_or("");
}

/// Where instant 0 of one lies on the time line of the other, if one kernel ran both.
std::optional<int64_t> offset_on_same_kernel(const Run& reference, const Run& other) {
  const std::string here = kernel_of(reference);
  const auto &epoch_here = reference.numbers.epoch_monotonic_ns,
             &epoch_there = other.numbers.epoch_monotonic_ns;
  if (here.empty() || here != kernel_of(other) || !epoch_here || !epoch_there) return std::nullopt;
  return *epoch_there - *epoch_here;
}

/// Wall clock at instant 0, and how far the anchors disagree about it.
struct WallClock {
  int64_t unix_ns = 0, wander_ns = 0;
};
std::optional<WallClock> wall_clock_of(const Run& run) {
  std::vector<int64_t> zeros = mapped(run.manifest.anchors, [](const ClockAnchor& anchor) {
    return anchor.unix_ns - anchor.instant.nanoseconds();
  });
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
    const SpanType& type = run.timeline.types[as_size(span.type)];
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
  return 1.4826 * as_real(upper_median(std::move(values))) * unit::ns;
}

/// Moves to where the events coincide, if they say that clearly.
void refine(Alignment& alignment, AlignedBy by, const std::vector<int64_t>& distances) {
  const int64_t offset = std::llround(alignment.offset / unit::ns);
  const int64_t better = upper_median(distances);
  if (std::abs(better - offset) > most_correction_ns) return;
  const Seconds spread = spread_around(distances, better);
  const Seconds moved = as_real(std::abs(better - offset)) * unit::ns;
  alignment.num_events = static_cast<int64_t>(distances.size());
  alignment.by = by;
  // Steps that end whenever they like say nothing about clocks.
  const bool is_clear = spread < moved || by == AlignedBy::collectives;
  alignment.residual = is_clear ? spread : spread_around(distances, offset);
  if (is_clear) alignment.offset = as_real(better) * unit::ns;
}

/// "node 2" or its name.
std::string host_of(const Run& recording) {
  for (const std::string& host : recording.manifest.hosts)
    if (!host.empty()) return host;
  return recording.manifest.name;
}

/// How `other` lies beside `reference`.
Result<Alignment> align(const Run& reference, const Run& other) {
  Alignment alignment{.host = host_of(other)};
  const auto collectives = collective_distances(reference, other);
  const auto steps = step_distances(reference, other);
  if (const auto offset = offset_on_same_kernel(reference, other)) {
    alignment.offset = as_real(*offset) * unit::ns;
    alignment.num_events = static_cast<int64_t>(collectives.size());
    if (collectives.size() >= least_events)
      alignment.residual = spread_around(collectives, *offset);
    return alignment;
  }
  const auto here = wall_clock_of(reference), there = wall_clock_of(other);
  if (!here || !there)
    return error(
        "{} has no wall clock (it was not recorded, or by something else); "
        "merge recordings of triplepoint record",
        here ? host_of(other) : host_of(reference));
  alignment.by = AlignedBy::wall_clock;
  alignment.offset = as_real(there->unix_ns - here->unix_ns) * unit::ns;
  alignment.residual = as_real(here->wander_ns + there->wander_ns) * unit::ns;
  if (collectives.size() >= least_events)
    refine(alignment, AlignedBy::collectives, collectives);
  else if (steps.size() >= least_events)
    refine(alignment, AlignedBy::steps, steps);
  return alignment;
}

/// A GPU belongs to one recording of a job: two with the same one on the same host are two runs, or
/// the same file twice.
Result<void> require_own_gpus(const std::vector<Run>& recordings) {
  std::map<std::pair<std::string, std::string>, const Run*> owners;  // by host and UUID
  for (const Run& run : recordings)
    for (const Device& device : run.devices) {
      if (device.uuid.empty()) continue;
      const auto [found, is_new] = owners.try_emplace({host_of(run), device.uuid}, &run);
      if (is_new || found->second == &run) continue;
      return error(
          "recordings {} and {} of {} have the same GPU {} (they are two runs on one "
          "node, or the same file twice); give one recording per node",
          found->second->manifest.name, run.manifest.name, host_of(run), device.uuid);
    }
  return {};
}

/// Whether two recordings are one: the same series and spans.
bool are_equal(const Run& a, const Run& b) {
  const auto same_span = [](const Span& x, const Span& y) {
    return x.begin == y.begin && x.end == y.end && x.rank == y.rank;
  };
  const auto same_step = [](const StepRecord& x, const StepRecord& y) {
    return x.begin == y.begin && x.end == y.end;
  };
  return a.series == b.series && std::ranges::equal(a.steps, b.steps, same_step) &&
         std::ranges::equal(a.timeline.spans, b.timeline.spans, same_span) &&
         a.manifest.epoch_unix_ns == b.manifest.epoch_unix_ns;
}

/// From the first to the last that a recording says; nothing of an empty one.
std::optional<Extent> extent_of(const Run& run) {
  std::optional<Extent> all;
  const auto add = [&](Instant begin, Instant end) {
    if (!all) all = Extent{begin, end};
    all->begin = std::min(all->begin, begin);
    all->end = std::max(all->end, end);
  };
  for (const ClockAnchor& anchor : run.manifest.anchors)
    add(anchor.instant, anchor.instant);
  for (const Series& series : run.series)
    if (!series.times.empty()) add(series.times.front(), series.times.back());
  for (const StepRecord& step : run.steps)
    add(step.begin, step.end);
  for (const Span& span : run.timeline.spans)
    add(span.begin, span.end);
  return all;
}

/// A node has one recording of a job: two of one host, as its kernel knows it, whose times overlap
/// would be counted as two nodes.
Result<void> require_own_nodes(const std::vector<Run>& recordings,
                               const std::vector<Alignment>& alignments) {
  for (size_t i = 0; i < recordings.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const Run &a = recordings[j], &b = recordings[i];
      const bool same_node =
          host_of(a) == host_of(b) && !kernel_of(a).empty() && kernel_of(a) == kernel_of(b);
      const auto here = extent_of(a), there = extent_of(b);
      const bool overlap =
          here && there &&
          here->begin + alignments[j].offset <= there->end + alignments[i].offset &&
          there->begin + alignments[i].offset <= here->end + alignments[j].offset;
      if ((!same_node || !overlap) && !are_equal(a, b)) continue;
      return error(
          "recordings {} and {} are {} {} (they would be counted as two nodes); give one recording "
          "per node",
          a.manifest.name, b.manifest.name,
          are_equal(a, b) ? "the same recording, of" : "both of the same time on", host_of(b));
    }
  return {};
}

/// Nodes of a job run at the same time.
Result<void> require_overlap(const std::vector<Run>& recordings,
                             const std::vector<Alignment>& alignments) {
  const Run* last_to_begin = nullptr;
  const Run* first_to_end = nullptr;
  Instant begin(INT64_MIN), end(INT64_MAX);
  for (size_t i = 0; i < recordings.size(); ++i) {
    const auto extent = extent_of(recordings[i]);
    if (!extent) continue;
    if (const Instant here = extent->begin + alignments[i].offset; here > begin)
      begin = here, last_to_begin = &recordings[i];
    if (const Instant here = extent->end + alignments[i].offset; here < end)
      end = here, first_to_end = &recordings[i];
  }
  if (last_to_begin == nullptr || begin <= end) return {};
  return error(
      "recordings {} and {} do not overlap in time (by their clocks, the second one begins {:.1f} "
      "s "
      "after the end of the first one), so they are not of one job; give recordings of one launch",
      first_to_end->manifest.name, last_to_begin->manifest.name, (begin - end) / unit::s);
}

/// How numbers of one recording become numbers of all.
struct Numbers {
  int32_t first_node = 0, first_device = 0, first_rank = 0;
  int64_t offset_ns = 0;
  Instant at(Instant instant) const { return Instant(instant.nanoseconds() + offset_ns); }
};

/// Ranks that devices and spans of a recording have.
std::set<int32_t> ranks_of(const Run& run) {
  std::set<int32_t> ranks = ranks_of(run.timeline);
  for (const Device& device : run.devices)
    if (device.rank) ranks.insert(*device.rank);
  return ranks;
}

/// Whether every recording has its own ranks, as those of one launch have.
bool have_own_ranks(const std::vector<Run>& recordings) {
  std::set<int32_t> all;
  for (const Run& run : recordings)
    for (int32_t rank : ranks_of(run))
      if (!all.insert(rank).second) return false;
  return true;
}

int32_t num_nodes(const Run& run) {
  int32_t nodes = std::max<int32_t>(1, static_cast<int32_t>(run.manifest.hosts.size()));
  for (const Device& device : run.devices)
    nodes = std::max(nodes, device.node + 1);
  return nodes;
}

int32_t num_devices(const Run& run) {
  return most_of(run.devices, [](const Device& device) { return device.index + 1; });
}

void add_manifest(Run& all, const Run& run, const Numbers& numbers) {
  const std::string host = host_of(run);
  all.manifest.hosts.resize(as_size(numbers.first_node));
  for (const std::string& name : run.manifest.hosts)
    all.manifest.hosts.push_back(name);
  for (ClockAnchor anchor : run.manifest.anchors) {
    anchor.node += numbers.first_node;
    anchor.instant = numbers.at(anchor.instant);
    all.manifest.anchors.push_back(anchor);
  }
  for (const std::string& note : run.manifest.notes)
    all.manifest.notes.push_back(fmt::format("{}: {}", host, note));
  for (const auto& [key, value] : run.manifest.facts) {
    const auto [found, is_new] = all.manifest.facts.emplace(key, value);
    if (!is_new && found->second != value)
      all.manifest.facts[fmt::format("{}@{}", key, host)] = value;
  }
}

/// Of the whole job: its ranks, and the energy where every node knows its own.
ProducerNumbers numbers_of_all(const std::vector<Run>& recordings) {
  ProducerNumbers all = recordings.front().numbers;
  for (const Run& run : std::span(recordings).subspan(1)) {
    const auto add = [&](auto ProducerNumbers::*energy) {
      if (run.numbers.*energy && all.*energy)
        *(all.*energy) += *(run.numbers.*energy);
      else
        (all.*energy).reset();
    };
    add(&ProducerNumbers::recording_energy_j);
    add(&ProducerNumbers::gpus_without_energy);
    for (const auto energy :
         {&ProducerNumbers::recording_energy_uncertainty_j,  // sensors of one kind err alike
          &ProducerNumbers::recording_cpu_energy_j, &ProducerNumbers::recording_dram_energy_j,
          &ProducerNumbers::recording_node_energy_j, &ProducerNumbers::measured_step_energy_j,
          &ProducerNumbers::measured_step_energy_j_ci95})
      add(energy);
    all.recording_s = std::max(all.recording_s, run.numbers.recording_s);
    all.sampler_share_of_a_core =
        std::max(all.sampler_share_of_a_core, run.numbers.sampler_share_of_a_core);
    if (all.sampler_lost_ticks)
      *all.sampler_lost_ticks += run.numbers.sampler_lost_ticks.value_or(0);
    const bool is_worst =
        !was_disturbed(all) || *all.others_cpu_share < run.numbers.others_cpu_share;
    if (was_disturbed(run.numbers) && is_worst) {
      all.others_cpu_share = run.numbers.others_cpu_share;
      all.idle_cpu_share = run.numbers.idle_cpu_share;
    }
    if (!all.world_size) all.world_size = run.numbers.world_size;
  }
  return all;
}

void add_devices(Run& all, const Run& run, const Numbers& numbers) {
  // Summaries belong to devices by position.
  all.summaries.resize(all.devices.size());
  for (size_t i = 0; i < run.devices.size(); ++i) {
    Device device = run.devices[i];
    device.index += numbers.first_device;
    device.node += numbers.first_node;
    if (device.rank) *device.rank += numbers.first_rank;
    all.devices.push_back(std::move(device));
    all.summaries.push_back(i < run.summaries.size() ? run.summaries[i] : DeviceSummary());
  }
  for (const auto& [rank, wait] : run.core_waits)
    all.core_waits[rank + numbers.first_rank] = wait;
}

template <class Item>
Item renumbered(Item item, const Numbers& numbers) {
  item.device += item.of_node ? numbers.first_node : numbers.first_device;
  return item;
}

void add_series(Run& all, Run& run, const Numbers& numbers) {
  for (const SeriesSource& source : run.sources)
    all.sources.push_back(renumbered(source, numbers));
  for (Series& series : run.series) {
    Series moved = renumbered(std::move(series), numbers);
    for (Instant& time : moved.times.own())
      time = numbers.at(time);
    all.series.push_back(std::move(moved));
  }
}

void add_timeline(Timeline& all, const Timeline& timeline, const Numbers& numbers) {
  std::vector<int32_t> types =
      mapped(timeline.types, [&](const SpanType& type) { return all.intern(type); });
  for (Span span : expand(timeline).spans) {
    span.type = types[as_size(span.type)];
    span.begin = numbers.at(span.begin);
    span.end = numbers.at(span.end);
    span.rank += numbers.first_rank;
    all.spans.push_back(span);
    all.num_ranks = std::max(all.num_ranks, span.rank + 1);
  }
}

/// Node by node the same steps; a node that marked another number of them is left out.
void add_steps(std::vector<StepRecord>& all, const Run& run, const Numbers& numbers,
               std::vector<std::string>& notes) {
  if (run.steps.empty()) return;
  const bool is_first = all.empty();
  if (is_first) all.resize(run.steps.size());
  if (all.size() != run.steps.size()) {
    notes.push_back(fmt::format(
        "{} has {} measured steps where others have {}; its steps are not part of the job's",
        host_of(run), run.steps.size(), all.size()));
    return;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const StepRecord& step = run.steps[i];
    const Instant begin = numbers.at(step.begin), end = numbers.at(step.end);
    all[i].begin = is_first ? begin : std::min(all[i].begin, begin);
    all[i].end = is_first ? end : std::max(all[i].end, end);
    all[i].samples += step.samples;
    all[i].tokens += step.tokens;
  }
}

void note_alignment(const Alignment& alignment, std::vector<std::string>& notes) {
  std::string note = fmt::format("clock of {} aligned by {}, moved by {} s", alignment.host,
                                 name_of(alignment.by), fixed_point(alignment.offset / unit::s, 6));
  if (alignment.residual)
    note += fmt::format(", residual {:.1f} us", *alignment.residual / unit::us);
  if (alignment.num_events > 0) note += fmt::format(" over {} events", alignment.num_events);
  notes.push_back(std::move(note));
}

Run base_of(const Run& reference) {
  Run all;
  all.manifest.origin = reference.manifest.origin;
  all.manifest.fidelity = reference.manifest.fidelity;
  all.manifest.name = reference.manifest.name;
  all.manifest.job = reference.manifest.job;
  all.manifest.producer = reference.manifest.producer;
  all.manifest.epoch_unix_ns = reference.manifest.epoch_unix_ns;
  all.timeline.names = reference.timeline.names;
  all.memory = reference.memory;
  all.memory_limit = reference.memory_limit;
  all.model_flops = reference.model_flops;
  all.hardware_flops = reference.hardware_flops;
  all.peak_flops = reference.peak_flops;
  return all;
}

}  // namespace

std::string_view name_of(AlignedBy by) {
  constexpr std::string_view names[] = {"the same clock", "wall clocks", "ends of collectives",
                                        "ends of steps"};
  return names[as_size(by)];
}

Result<Merged> merge(std::vector<Run> recordings) {
  if (recordings.empty())
    return error("nothing to merge (no recording was given); name a folder with .run files");
  std::ranges::stable_sort(recordings,
                           [](const Run& a, const Run& b) { return host_of(a) < host_of(b); });
  TPT_TRY(require_own_gpus(recordings));
  Merged merged{.run = base_of(recordings[0])};
  Run& all = merged.run;
  for (const Run& run : recordings)
    merged.alignments.push_back(TPT_TRY(align(recordings[0], run)));
  TPT_TRY(require_overlap(recordings, merged.alignments));
  TPT_TRY(require_own_nodes(recordings, merged.alignments));
  const bool own_ranks = have_own_ranks(recordings);
  if (!own_ranks)
    all.manifest.notes.push_back(
        "recordings have the same ranks (they were not launched as one job); ranks are renumbered");
  all.numbers = numbers_of_all(recordings);
  Numbers numbers;
  for (size_t i = 0; i < recordings.size(); ++i) {
    Run& run = recordings[i];
    numbers.offset_ns = std::llround(merged.alignments[i].offset / unit::ns);
    add_manifest(all, run, numbers);
    add_devices(all, run, numbers);
    add_series(all, run, numbers);
    add_timeline(all.timeline, run.timeline, numbers);
    add_steps(all.steps, run, numbers, all.manifest.notes);
    if (i > 0) note_alignment(merged.alignments[i], all.manifest.notes);
    numbers.first_node += num_nodes(run);
    numbers.first_device += num_devices(run);
    const std::set<int32_t> ranks = ranks_of(run);
    if (!own_ranks && !ranks.empty()) numbers.first_rank += *ranks.rbegin() + 1;
  }
  sort(all.timeline);
  return merged;
}

}  // namespace triplepoint::run
