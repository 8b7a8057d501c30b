// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sensor_round.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace triplepoint::telemetry {

void UpdatePeriod::see_update(int64_t at) {
  // The first update seen began before the first sample: it only starts the first interval.
  if (updates_++ > 0) {
    const int64_t distance = at - last_update_;
    shortest_ = updates_ == 2 ? distance : std::min(shortest_, distance);
    longest_ = std::max(longest_, distance);
    sum_ += distance;
  }
  last_update_ = at;
}

void UpdatePeriod::see(int64_t read_ns, int64_t stamp_ns, double value) {
  if (readings_ > 0) {
    longest_wait_ = std::max(longest_wait_, read_ns - last_read_);
    if (stamp_ns == last_stamp_) ++repeated_stamps_;
    const bool stamped = repeated_stamps_ > 0;
    if (stamped && stamp_ns != last_stamp_) see_update(stamp_ns);
    if (!stamped && value != last_value_) see_update(read_ns);
    // What was counted before the first stamp came again were not updates.
    if (repeated_stamps_ == 1 && stamp_ns == last_stamp_)
      shortest_ = longest_ = sum_ = updates_ = 0;
  }
  ++readings_;
  last_read_ = read_ns;
  last_stamp_ = stamp_ns;
  last_value_ = value;
}

std::optional<int64_t> UpdatePeriod::found_ns() const {
  if (updates_ <= min_changes) return std::nullopt;
  const int64_t mean = sum_ / (updates_ - 1);
  const bool slower_than_readings = mean * 2 > longest_wait_ * 3;
  const bool regular = longest_ - shortest_ <= longest_wait_ + mean / 2;
  if (!slower_than_readings || !regular) return std::nullopt;
  return mean;
}

namespace {

// Readings of one call get one stamp if theirs lie closer than this: far below what any sensor
// resolves, and a time axis that is stored once instead of twenty times.
constexpr int64_t same_moment_ns = 500'000;
// A stamp from the future comes from a clock that is not ours.
constexpr int64_t farthest_ahead_ns = 1'000'000;

}  // namespace

SensorRound::SensorRound(std::unique_ptr<Sensor> sensor, Clock now)
    : sensor_(std::move(sensor)), now_(std::move(now)), name_(sensor_->name()) {
  for (const Channel& channel : sensor_->channels()) {
    channels_.push_back(channel.about);
    states_.push_back({.polling = channel.polling});
  }
}

int64_t SensorRound::read(int64_t tick, bool slow, std::vector<Sample>& samples) {
  if (!slow && tick % every_ != 0) return 0;
  const int64_t begin = now_();
  readings_.clear();
  sensor_->read(slow, readings_);
  const int64_t took = now_() - begin;
  take(slow, samples);
  return took;
}

void SensorRound::take(bool slow, std::vector<Sample>& samples) {
  const int64_t now = now_();
  int64_t moment = INT64_MIN / 2;
  for (const Reading& reading : readings_) {
    const auto channel = as_size(reading.channel);  // a negative one is too large
    if (channel >= states_.size() || !std::isfinite(reading.value)) continue;
    const int64_t stamp = reading.time_ns > now + farthest_ahead_ns ? now : reading.time_ns;
    ChannelState& state = states_[channel];
    state.period.see(now, stamp, reading.value);
    state.spoke = true;
    if (stamp <= state.last_stamp) continue;  // no update since
    state.last_stamp = stamp;
    if (std::abs(stamp - moment) > same_moment_ns) moment = stamp;
    const int64_t kept = moment > state.last_kept ? moment : stamp;
    if (kept <= state.last_kept) continue;
    state.last_kept = kept;
    samples.push_back({reading.channel, kept, reading.value});
  }
  note_silence(slow, now);
}

/// Channels that were asked and said nothing: sensors may drop what is not new themselves.
void SensorRound::note_silence(bool slow, int64_t now) {
  for (ChannelState& state : states_) {
    const bool asked = slow || state.polling == Polling::every_tick;
    if (asked && !state.spoke && state.last_stamp != INT64_MIN) state.period.see_nothing(now);
    state.spoke = false;
  }
}

void SensorRound::set_interval(int64_t tick_ns, int64_t longest_ns) {
  int64_t shortest = INT64_MAX;
  bool any_unknown = false;
  for (ChannelState& state : states_) {
    if (!state.found) state.found = state.period.found_ns();
    if (state.polling != Polling::every_tick) continue;
    any_unknown = any_unknown || !state.found;
    shortest = std::min(shortest, state.found.value_or(INT64_MAX));
  }
  const bool ticks_are_enough = longest_ns <= tick_ns;
  int64_t wanted = shortest == INT64_MAX ? longest_ns : shortest / 2;
  if (ticks_are_enough && any_unknown) wanted = tick_ns;
  if (!ticks_are_enough) wanted = std::min(wanted, longest_ns);
  every_ = std::max<int64_t>(1, wanted / tick_ns);
}

int64_t SensorRound::shortest_period_ns() const {
  int64_t shortest = 0;
  for (const ChannelState& state : states_) {
    const int64_t found = state.period.is_stamped() ? state.period.found_ns().value_or(0) : 0;
    if (found > 0 && (shortest == 0 || found < shortest)) shortest = found;
  }
  return shortest;
}

std::vector<std::optional<Seconds>> SensorRound::periods() const {
  std::vector<std::optional<Seconds>> periods;
  for (size_t i = 0; i < channels_.size(); ++i) {
    const auto found = states_[i].found ? states_[i].found : states_[i].period.found_ns();
    periods.push_back(found ? std::optional(as_real(*found) * unit::ns) : channels_[i].period);
  }
  return periods;
}

}  // namespace triplepoint::telemetry
