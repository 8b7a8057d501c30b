// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/merge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/run/merge_clocks.h"

namespace triplepoint::run {

namespace {

/// How numbers of one recording become numbers of all.
struct Numbers {
  int32_t first_node = 0, first_device = 0, first_rank = 0;
  int64_t offset_ns = 0;
  Instant at(Instant instant) const { return Instant(instant.nanoseconds() + offset_ns); }
};

/// Ranks that devices and spans of a recording have.
std::set<int32_t> ranks_of(const Run& run) {
  std::set<int32_t> ranks;
  for (const Device& device : run.devices)
    if (device.rank) ranks.insert(*device.rank);
  for (const Span& span : run.timeline.spans)
    ranks.insert(span.rank);
  return ranks;
}

/// Whether every recording has ranks of its own, as those of one launch have.
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
  int32_t devices = 0;
  for (const Device& device : run.devices)
    devices = std::max(devices, device.index + 1);
  return devices;
}

void add_manifest(Run& all, const Run& run, const Numbers& numbers) {
  const std::string host = host_of(run);
  all.manifest.hosts.resize(static_cast<size_t>(numbers.first_node));
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
    for (Instant& time : moved.times)
      time = numbers.at(time);
    all.series.push_back(std::move(moved));
  }
}

void add_timeline(Timeline& all, const Timeline& timeline, const Numbers& numbers) {
  std::vector<int32_t> types;
  for (const SpanType& type : timeline.types)
    types.push_back(all.intern(type));
  for (Span span : expand(timeline).spans) {
    span.type = types[static_cast<size_t>(span.type)];
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
    notes.push_back(
        fmt::format("{} has {} measured steps where others have {}; its steps are not "
                    "part of the job's",
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
  std::string note = fmt::format("clock of {} aligned by {}, moved by {:.6f} s", alignment.host,
                                 name_of(alignment.by), alignment.offset / unit::s);
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
  return names[static_cast<size_t>(by)];
}

Result<Merged> merge(std::vector<Run> recordings) {
  if (recordings.empty())
    return error("nothing to merge (no recording was given); name a folder with .run files");
  std::stable_sort(recordings.begin(), recordings.end(),
                   [](const Run& a, const Run& b) { return host_of(a) < host_of(b); });
  Merged merged{.run = base_of(recordings[0])};
  Run& all = merged.run;
  for (const Run& run : recordings)
    merged.alignments.push_back(TPT_TRY(align(recordings[0], run)));
  const bool own_ranks = have_own_ranks(recordings);
  if (!own_ranks)
    all.manifest.notes.push_back(
        "recordings say the same ranks (they were not launched as one job); ranks are numbered on");
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
