// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/live.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "triplepoint/base/result.h"

#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry {
namespace {

// A reading may be so old: some seconds, or some of the times after which a new one is due.
constexpr double oldest_s = 5, oldest_periods = 5, oldest_slow_readings = 2.5;

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
      device_of_sampler_.push_back(position[as_size(same - part.devices.begin())]);
    }
  sampler_.add(std::move(part.all));
  for (std::size_t i = about_.size(); i < sampler_.channels().size(); ++i) {
    about_.push_back(sampler_.channels()[i]);
    if (!about_.back().of_node)
      about_.back().device = device_of_sampler_.at(as_size(about_.back().device));
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
                                     .period = bits.period},
                           .bit = reason.bit});
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
    Latest& latest = latest_.at(as_size(sample.channel));
    if (about_[as_size(sample.channel)].signal == "throttle_reasons")
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
  const int32_t device = about_[as_size(bits.channel)].device;
  const int64_t passed = bits.time_ns - before.time_ns;
  constexpr int64_t longest_ns = 2 * second_ns;
  for (Polled& one : polled_) {
    if (one.about.device != device) continue;
    const bool held = (static_cast<uint64_t>(before.value) & one.bit) != 0;
    const double total = one.latest.count > 0 ? one.latest.last.value : 0;
    keep(one.latest, {.channel = bits.channel,
                      .time_ns = bits.time_ns,
                      .value = total + (held ? as_real(std::min(passed, longest_ns)) : 0)});
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
  return as_real(now_ns - latest.last.time_ns) < allowed_s * 1e9;
}

LiveReading Live::reading_of(const run::SeriesSource& about, const Latest& latest, int64_t now_ns) {
  LiveReading reading{.about = about, .value = latest.last.value};
  reading.age_s = as_real(std::max<int64_t>(0, now_ns - latest.last.time_ns)) * 1e-9;
  const double over_s = as_real(latest.last.time_ns - latest.older.time_ns) * 1e-9;
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
    if (!about.of_node) snapshot.devices[as_size(about.device)].answers = true;
  }
  for (const Polled& one : polled_)
    if (is_current(one.about, one.latest, now_ns))
      snapshot.readings.push_back(reading_of(one.about, one.latest, now_ns));
  for (const Trouble& trouble : troubles_)
    snapshot.troubles.push_back(trouble.sentence);
  const double since_s = as_real(now_ns - begin_ns_) * 1e-9;
  if (since_s > 1) snapshot.sampler_share = sampler_.cost().cpu_s / since_s;
  return snapshot;
}

}  // namespace triplepoint::telemetry
