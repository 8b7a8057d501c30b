// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/live.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/result.h"

#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry {
namespace {

// A reading may be so old: some seconds, or some of the times after which a new one is due.
constexpr double oldest_s = 5, oldest_periods = 5, oldest_slow_readings = 2.5;
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

namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t trouble_lasts_ns = 300 * second_ns;

int64_t unix_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * second_ns + now.tv_nsec;
}

}  // namespace

Live::Live(Sensors sensors, const SamplingPlan& plan)
    : opening_(sensors.opening),
      sampler_({}, plan),
      begin_ns_(monotonic_now_ns()),
      slow_s_(plan.interval / unit::s * plan.slow_every) {
  adopt(std::move(sensors));
}

/// The sampler counts devices in the order in which they were opened, the node by `local`.
void Live::adopt(Sensors part) {
  std::vector<int32_t> position;  // of the part's facts
  for (DeviceFacts& facts : part.devices) {
    const auto silent = std::ranges::find_if(devices_, [&](const DeviceFacts& other) {
      return other.sensor < 0 && other.device.local == facts.device.local;
    });
    position.push_back(static_cast<int32_t>(silent - devices_.begin()));
    silent != devices_.end() ? void(*silent = facts) : devices_.push_back(facts);
  }
  for (std::size_t s = 0; s < part.all.size(); ++s)
    for (const run::Device& device : part.all[s]->devices()) {
      const auto same = std::ranges::find_if(part.devices, [&](const DeviceFacts& facts) {
        return facts.sensor == static_cast<int32_t>(s) && facts.device.index == device.index;
      });
      TPT_EXPECT(same != part.devices.end());
      device_of_sampler_.push_back(position[static_cast<std::size_t>(same - part.devices.begin())]);
    }
  sampler_.add(std::move(part.all));
  for (std::size_t i = about_.size(); i < sampler_.channels().size(); ++i) {
    about_.push_back(sampler_.channels()[i]);
    if (!about_.back().of_node)
      about_.back().device = device_of_sampler_.at(static_cast<std::size_t>(about_.back().device));
  }
  latest_.resize(about_.size());
  const auto has = [&](std::string_view signal, int32_t device) {
    return std::ranges::any_of(about_, [&](const run::SeriesSource& about) {
      return about.signal == signal && about.device == device && !about.of_node;
    });
  };
  polled_.clear();
  for (const run::SeriesSource& bits : about_)
    for (const run::ThrottleReason& reason : run::throttle_reasons)
      if (bits.signal == "throttle_reasons" && !has(reason.counter, bits.device))
        polled_.push_back({.about = {.signal = std::string(reason.counter),
                                     .device = bits.device,
                                     .kind = run::ReadingKind::counter,
                                     .sensor = bits.sensor + ", polled",
                                     .period = bits.period,
                                     .window = {}},
                           .bit = reason.bit,
                           .latest = {}});
  gaps_.insert(gaps_.end(), part.gaps.begin(), part.gaps.end());
  add_facts(node_, std::move(part.node));
}

/// What has begun to answer since the last call.
void Live::adopt_opened() {
  if (opening_ == nullptr) return;
  for (Sensors& part : opening_->take())
    adopt(std::move(part));
  if (opening_->is_complete()) opening_.reset();
}

void Live::start() {
  sampler_.start();
}

void Live::update() {
  adopt_opened();
  samples_.clear();
  sampler_.take(samples_);
  fold();
}

void Live::read_now() {
  adopt_opened();
  samples_.clear();
  sampler_.read_now(true, samples_);
  fold();
}

void Live::fold() {
  for (const Sample& sample : samples_) {
    Latest& latest = latest_.at(static_cast<std::size_t>(sample.channel));
    if (about_[static_cast<std::size_t>(sample.channel)].signal == "throttle_reasons")
      count_reasons(latest.count > 0 ? latest.last : sample, sample);
    keep(latest, sample);
  }
  collect_troubles(monotonic_now_ns());
}

void Live::keep(Latest& latest, const Sample& sample) {
  if (latest.count++ == 0) latest.older = latest.newer = sample;
  latest.last = sample;
  if (sample.time_ns - latest.newer.time_ns < second_ns) return;
  latest.older = std::exchange(latest.newer, sample);
}

/// A bit holds until the next look, but not through a time in which no poll looked.
void Live::count_reasons(const Sample& before, const Sample& bits) {
  const int32_t device = about_[static_cast<std::size_t>(bits.channel)].device;
  const int64_t passed = bits.time_ns - before.time_ns;
  constexpr int64_t longest_ns = 2 * second_ns;
  for (Polled& one : polled_) {
    if (one.about.device != device) continue;
    const bool held = (static_cast<uint64_t>(before.value) & one.bit) != 0;
    const double total = one.latest.count > 0 ? one.latest.last.value : 0;
    keep(one.latest,
         {.channel = bits.channel,
          .time_ns = bits.time_ns,
          .value = total + (held ? static_cast<double>(std::min(passed, longest_ns)) : 0)});
  }
}

void Live::collect_troubles(int64_t now_ns) {
  for (std::string& sentence : sampler_.take_troubles()) {
    std::erase_if(troubles_, [&](const Trouble& old) { return old.sentence == sentence; });
    troubles_.push_back({now_ns, std::move(sentence)});
  }
  std::erase_if(troubles_, [&](const Trouble& trouble) {
    return now_ns - trouble.time_ns > trouble_lasts_ns;
  });
}

bool Live::is_current(const run::SeriesSource& about, const Latest& latest, int64_t now_ns) const {
  if (latest.count == 0) return false;
  const auto& period = about.period;
  const double period_s = period ? *period / unit::s : 0;
  const double allowed_s =
      std::max({oldest_s, oldest_periods * period_s, oldest_slow_readings * slow_s_});
  return static_cast<double>(now_ns - latest.last.time_ns) < allowed_s * 1e9;
}

LiveReading Live::reading_of(const run::SeriesSource& about, const Latest& latest, int64_t now_ns) {
  LiveReading reading{.about = about, .value = latest.last.value};
  reading.age_s = static_cast<double>(std::max<int64_t>(0, now_ns - latest.last.time_ns)) * 1e-9;
  const double over_s = static_cast<double>(latest.last.time_ns - latest.older.time_ns) * 1e-9;
  if (reading.about.kind == run::ReadingKind::counter && over_s > 0)
    reading.rate = (latest.last.value - latest.older.value) / over_s;
  return reading;
}

Snapshot Live::snapshot() {
  const int64_t now_ns = monotonic_now_ns();
  Snapshot snapshot{.node = node_, .unix_ns = unix_now_ns()};
  snapshot.gaps = gaps_;
  const std::vector<Gap>& unread = sampler_.gaps();
  snapshot.gaps.insert(snapshot.gaps.end(), unread.begin(), unread.end());
  if (opening_ != nullptr)
    for (Gap& gap : opening_->outstanding())
      snapshot.gaps.push_back(std::move(gap));
  for (const DeviceFacts& facts : devices_)
    snapshot.devices.push_back({facts, false});
  const auto periods = sampler_.periods();
  for (std::size_t channel = 0; channel < latest_.size(); ++channel) {
    if (periods[channel]) about_[channel].period = periods[channel];
    const run::SeriesSource& about = about_[channel];
    if (!is_current(about, latest_[channel], now_ns)) continue;
    snapshot.readings.push_back(reading_of(about, latest_[channel], now_ns));
    if (!about.of_node) snapshot.devices[static_cast<std::size_t>(about.device)].answers = true;
  }
  for (const Polled& one : polled_)
    if (is_current(one.about, one.latest, now_ns))
      snapshot.readings.push_back(reading_of(one.about, one.latest, now_ns));
  for (const Trouble& trouble : troubles_)
    snapshot.troubles.push_back(trouble.sentence);
  const double since_s = static_cast<double>(now_ns - begin_ns_) * 1e-9;
  if (since_s > 1) snapshot.sampler_share = sampler_.cost().cpu_s / since_s;
  return snapshot;
}

}  // namespace triplepoint::telemetry
