// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/of_run.h"

#include <algorithm>

#include <fmt/format.h>

namespace triplepoint::telemetry {
namespace {

constexpr double oldest_s = 5, oldest_periods = 5;
constexpr double rate_over_s = 2;

run::SeriesSource source_of(const run::Run& run, const run::Series& series) {
  for (const run::SeriesSource& source : run.sources)
    if (source.signal == series.signal && source.device == series.device &&
        source.of_node == series.of_node)
      return source;
  // Simulated and imported runs say nothing of sensors; the signal's name says enough.
  run::SeriesSource source{
      .signal = series.signal, .device = series.device, .of_node = series.of_node};
  const std::string& signal = series.signal;
  const bool counts = signal.ends_with("_bytes") || signal.ends_with("_j") ||
                      signal.starts_with("throttle_ns_") ||
                      (signal.starts_with("cpu_") && signal.ends_with("_s"));
  if (counts) source.kind = run::ReadingKind::counter;
  if (signal == "throttle_reasons") source.kind = run::ReadingKind::bits;
  if (series.of_node) source.scope = run::Scope::node;
  return source;
}

/// Between two values, in the mean; 0 for fewer than two.
double spacing_s(const run::Series& series) {
  if (series.times.size() < 2) return 0;
  return (series.times.back() - series.times.front()) / unit::s /
         static_cast<double>(series.times.size() - 1);
}

/// Index of the last value at or before `at`; nothing before the first.
std::optional<std::size_t> index_at(const run::Series& series, Instant at) {
  const auto after = std::upper_bound(series.times.begin(), series.times.end(), at);
  if (after == series.times.begin()) return std::nullopt;
  return static_cast<std::size_t>(after - series.times.begin()) - 1;
}

std::optional<LiveReading> reading_at(const run::Run& run, const run::Series& series, Instant at) {
  const auto last = index_at(series, at);
  if (!last || *last >= series.values.size()) return std::nullopt;
  LiveReading reading{.about = source_of(run, series), .value = series.values[*last]};
  reading.age_s = (at - series.times[*last]) / unit::s;
  const double period_s = reading.about.period ? *reading.about.period / unit::s : 0;
  const double allowed_s =
      std::max(oldest_s, oldest_periods * std::max(period_s, spacing_s(series)));
  if (run.manifest.origin == run::Origin::measured && reading.age_s > allowed_s)
    return std::nullopt;
  if (reading.about.kind != run::ReadingKind::counter) return reading;
  const Instant since = series.times[*last] - rate_over_s * unit::s;
  const std::size_t older = index_at(series, since).value_or(0);
  const double over_s = (series.times[*last] - series.times[older]) / unit::s;
  if (over_s > 0) reading.rate = (reading.value - series.values[older]) / over_s;
  return reading;
}

/// The nodes, each with its devices; `place` gets where each global device went.
std::vector<Snapshot> nodes_of(const run::Run& run,
                               std::vector<std::pair<int32_t, int32_t>>& place) {
  std::vector<Snapshot> nodes(1);
  for (const run::Device& device : run.devices) {
    const auto node = static_cast<std::size_t>(std::max(device.node, 0));
    if (nodes.size() <= node) nodes.resize(node + 1);
    place.emplace_back(device.node, static_cast<int32_t>(nodes[node].devices.size()));
    LiveDevice live;
    live.facts.device = device;
    live.answers = false;
    if (run.memory_limit) live.facts.memory = *run.memory_limit;
    nodes[node].devices.push_back(std::move(live));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i].node.host =
        i < run.manifest.hosts.size() ? run.manifest.hosts[i] : fmt::format("node {}", i);
  return nodes;
}

}  // namespace

Instant last_reading(const run::Run& run) {
  Instant last;
  for (const run::Series& series : run.series)
    if (!series.times.empty()) last = std::max(last, series.times.back());
  return last;
}

std::vector<Snapshot> snapshots_of(const run::Run& run, Instant at) {
  std::vector<std::pair<int32_t, int32_t>> place;
  std::vector<Snapshot> nodes = nodes_of(run, place);
  for (const run::Series& series : run.series) {
    auto reading = reading_at(run, series, at);
    const auto index = static_cast<std::size_t>(series.device);
    if (!reading || series.device < 0 || (!series.of_node && index >= place.size())) continue;
    const auto node =
        series.of_node ? index : static_cast<std::size_t>(std::max(place[index].first, 0));
    if (node >= nodes.size()) continue;
    reading->about.device = series.of_node ? 0 : place[index].second;
    if (!series.of_node)
      nodes[node].devices[static_cast<std::size_t>(place[index].second)].answers = true;
    nodes[node].readings.push_back(*std::move(reading));
  }
  for (Snapshot& node : nodes)
    node.unix_ns = run.manifest.epoch_unix_ns.value_or(0) + at.nanoseconds();
  return nodes;
}

}  // namespace triplepoint::telemetry
