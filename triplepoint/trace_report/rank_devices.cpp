// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "triplepoint/spec/load.h"

#include "triplepoint/trace_report/input.h"
#include "triplepoint/trace_report/operator_work.h"

namespace triplepoint::trace_report {
namespace {

/// The D of "device D stream S", as readers name the lanes of devices.
std::optional<int32_t> device_of(const run::Lane& lane) {
  constexpr std::string_view word = "device ";
  int32_t number = -1;
  if (lane.stream == run::Stream::host || !lane.name.starts_with(word)) return std::nullopt;
  std::from_chars(lane.name.data() + word.size(), lane.name.data() + lane.name.size(), number);
  return number < 0 ? std::nullopt : std::optional(number);
}

/// Numbers of devices by rank.
std::map<int32_t, std::set<int32_t>> devices_of_ranks(const run::Timeline& timeline) {
  std::map<int32_t, std::set<int32_t>> devices;
  for (const run::Span& span : timeline.spans)
    devices[span.rank];
  for (const run::Lane& lane : timeline.lanes)
    if (const auto device = device_of(lane); device && devices.contains(lane.rank))
      devices[lane.rank].insert(*device);
  return devices;
}

bool knows_a_rank(const run::Run& recording, const std::map<int32_t, std::set<int32_t>>& ranks) {
  return std::ranges::any_of(recording.devices, [&](const auto& device) {
    return device.rank && ranks.contains(*device.rank);
  });
}

/// Why the numbers of the traces are not those of the recording's devices; empty if they are.
std::string mismatch(const run::Run& recording, const run::Run& traces,
                     const std::map<int32_t, std::set<int32_t>>& ranks) {
  const bool one_node = std::ranges::all_of(recording.devices, [&](const run::Device& device) {
    return device.node == recording.devices.front().node;
  });
  if (!one_node) return "the recording is of several nodes";
  if (const auto hosts = traces.numbers.num_hosts)
    return fmt::format("the traces are of {} hosts", *hosts);
  std::map<int32_t, int32_t> taken;  // rank by device
  for (const auto& [rank, devices] : ranks) {
    if (devices.empty()) return fmt::format("the trace of rank {} names no device", rank);
    if (devices.size() > 1) return fmt::format("rank {} uses several devices", rank);
    const int32_t own = *devices.begin();
    const auto [other, is_new] = taken.try_emplace(own, rank);
    if (!is_new)
      return fmt::format(
          "ranks {} and {} both call their device {}, as processes do that see one GPU each",
          other->second, rank, own);
    if (!holds(recording.devices, own, &run::Device::local))
      return fmt::format("the recording has no GPU {}", own);
  }
  return "";
}

}  // namespace

std::optional<std::string> gpu_of_traces(const spec::Library& library, const run::Run& traces) {
  const auto name = value_at(traces.manifest.facts, "device");
  const auto named = name ? spec::gpu_named(*name) : std::nullopt;
  if (!named || !traces.numbers.gpu_memory_b) return named;
  const Bytes memory(*traces.numbers.gpu_memory_b);
  const auto stem = [](const std::string& gpu) { return gpu.substr(0, gpu.find('-')); };
  const auto apart = [&](const std::string& gpu) {
    const auto loaded = spec::load_gpu(library, gpu);
    return loaded && loaded->memory ? std::abs(*loaded->memory / memory - 1) : HUGE_VAL;
  };
  std::string nearest = *named;
  for (const std::string& gpu : spec::list_gpus(library))
    if (stem(gpu) == stem(*named) && apart(gpu) < apart(nearest)) nearest = gpu;
  return nearest;
}

std::string take_ranks_from_traces(run::Run& recording, const run::Run& traces) {
  const auto ranks = devices_of_ranks(traces.timeline);
  if (recording.devices.empty() || ranks.empty() || knows_a_rank(recording, ranks)) return "";
  const bool knows_others = std::ranges::any_of(
      recording.devices, [](const auto& device) { return device.rank.has_value(); });
  const std::string why =
      knows_others ? "the recording is of other ranks" : mismatch(recording, traces, ranks);
  if (!why.empty())
    return fmt::format(
        "no GPU of the recording is known to be a rank's ({}); start one triplepoint record per "
        "rank (srun, mpirun), or mark steps in the program (docs/measure/recording.md)",
        why);
  constexpr size_t most_named = 8;
  std::string text;
  size_t named = 0;
  for (const auto& [rank, devices] : ranks) {
    for (run::Device& device : recording.devices)
      if (device.local == *devices.begin()) device.rank = rank;
    if (named++ < most_named)
      text += fmt::format("{}rank {} taken as GPU {}", text.empty() ? "" : ", ", rank,
                          *devices.begin());
  }
  if (named > most_named) text += fmt::format(" and {} more", named - most_named);
  return text + ", from the traces (the recording knows no ranks)";
}

}  // namespace triplepoint::trace_report
