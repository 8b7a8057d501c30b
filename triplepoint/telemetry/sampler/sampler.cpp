// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include <pthread.h>

#include "triplepoint/base/result.h"

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

SensorRound::SensorRound(std::vector<std::unique_ptr<Sensor>> sensors, Clock now)
    : sensors_(std::move(sensors)), now_(std::move(now)) {
  for (const auto& sensor : sensors_)
    adopt(*sensor);
  states_.resize(channels_.size());
  every_.assign(sensors_.size(), 1);
}

void SensorRound::adopt(const Sensor& sensor) {
  const auto first_device = static_cast<int32_t>(devices_.size());
  first_channel_.push_back(static_cast<int32_t>(channels_.size()));
  names_.emplace_back(sensor.name());
  for (run::Device device : sensor.devices()) {
    device.index = static_cast<int32_t>(devices_.size());
    devices_.push_back(std::move(device));
  }
  for (const Channel& channel : sensor.channels()) {
    run::SeriesSource about = channel.about;
    if (!about.of_node) about.device += first_device;
    channels_.push_back(std::move(about));
    paces_.push_back(channel.pace);
  }
}

std::vector<Gap> SensorRound::gaps() const {
  std::vector<Gap> gaps;
  for (const auto& sensor : sensors_)
    gaps.insert(gaps.end(), sensor->gaps().begin(), sensor->gaps().end());
  return gaps;
}

SensorRound::Calls SensorRound::read(int64_t tick, bool slow, std::vector<Sample>& samples) {
  Calls calls;
  for (size_t i = 0; i < sensors_.size(); ++i) {
    if (!slow && tick % every_[i] != 0) continue;
    const int64_t begin = now_();
    readings_.clear();
    sensors_[i]->read(slow, readings_);
    const int64_t took = now_() - begin;
    calls.all_ns += took;
    if (took > calls.longest_ns) calls.slowest = i;
    calls.longest_ns = std::max(calls.longest_ns, took);
    take(i, slow, samples);
  }
  return calls;
}

void SensorRound::take(size_t sensor, bool slow, std::vector<Sample>& samples) {
  const int64_t now = now_();
  int64_t moment = INT64_MIN / 2;
  for (const Reading& reading : readings_) {
    if (reading.channel < 0) continue;
    const size_t channel =
        static_cast<size_t>(first_channel_[sensor]) + static_cast<size_t>(reading.channel);
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
    samples.push_back({static_cast<int32_t>(channel), kept, reading.value});
  }
  note_silence(sensor, slow, now);
}

/// Channels that were asked and said nothing: sensors may drop what is not new themselves.
void SensorRound::note_silence(size_t sensor, bool slow, int64_t now) {
  for (auto channel = static_cast<size_t>(first_channel_[sensor]); channel < end_of(sensor);
       ++channel) {
    ChannelState& state = states_[channel];
    const bool asked = slow || paces_[channel] == Pace::every_tick;
    if (asked && !state.spoke && state.last_stamp != INT64_MIN) state.period.see_nothing(now);
    state.spoke = false;
  }
}

std::vector<std::string> SensorRound::take_troubles() {
  std::vector<std::string> all;
  for (const auto& sensor : sensors_)
    for (std::string& trouble : sensor->take_troubles())
      all.push_back(std::move(trouble));
  return all;
}

size_t SensorRound::end_of(size_t sensor) const {
  return sensor + 1 < sensors_.size() ? static_cast<size_t>(first_channel_[sensor + 1])
                                      : states_.size();
}

void SensorRound::set_pace(int64_t tick_ns, int64_t longest_ns) {
  for (ChannelState& state : states_)
    state.found = state.period.found_ns();
  for (size_t i = 0; i < sensors_.size(); ++i) {
    int64_t shortest = INT64_MAX;
    bool any_unknown = false;
    for (auto channel = static_cast<size_t>(first_channel_[i]); channel < end_of(i); ++channel) {
      if (paces_[channel] != Pace::every_tick) continue;
      const auto found = states_[channel].found;
      any_unknown = any_unknown || !found;
      shortest = std::min(shortest, found.value_or(INT64_MAX));
    }
    const bool ticks_are_enough = longest_ns <= tick_ns;
    int64_t wanted = shortest == INT64_MAX ? longest_ns : shortest / 2;
    if (ticks_are_enough && any_unknown) wanted = tick_ns;
    if (!ticks_are_enough) wanted = std::min(wanted, longest_ns);
    every_[i] = std::max<int64_t>(1, wanted / tick_ns);
  }
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
    periods.push_back(found ? std::optional(static_cast<double>(*found) * unit::ns)
                            : channels_[i].period);
  }
  return periods;
}

namespace {

int64_t nanoseconds(Seconds time) {
  return static_cast<int64_t>(time / unit::ns);
}

double thread_cpu_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// The sampler's own series, behind those of the sensors.
enum OwnChannel { cpu_s, late_s, lost_ticks, call_s, num_own_channels };

run::SeriesSource own_channel(OwnChannel which) {
  constexpr const char* names[] = {"sampler_cpu_s", "sampler_late_s", "sampler_lost_ticks",
                                   "sampler_call_s"};
  const bool counts = which == cpu_s || which == lost_ticks;
  return {.signal = names[which],
          .of_node = true,
          .scope = run::Scope::host,
          .kind = counts ? run::ReadingKind::counter : run::ReadingKind::instant,
          .sensor = "sampler"};
}

}  // namespace

struct Sampler::State {
  State(std::vector<std::unique_ptr<Sensor>> sensors, SamplingPlan wanted)
      : plan(wanted), round(std::move(sensors), monotonic_now_ns), channels(round.channels()) {
    for (int i = 0; i < num_own_channels; ++i)
      channels.push_back(own_channel(static_cast<OwnChannel>(i)));
    periods = round.periods();
    periods.resize(channels.size());
  }

  const SamplingPlan plan;
  SensorRound round;
  std::vector<run::SeriesSource> channels;

  // Shared by the thread that samples and the one that takes.
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::vector<Sample> waiting;
  std::vector<std::string> troubles;
  std::vector<std::optional<Seconds>> periods;
  SamplerCost cost;

  std::thread thread;
  int64_t next_slow_ns = 0;

  void work();
  int64_t chosen_tick(int64_t probe_ticks) const;
  void sample(const TickGrid& grid, int64_t now, std::vector<Sample>& fresh);
  void publish(std::vector<Sample>& fresh, const SensorRound::Calls& calls, bool slow);
  bool sleep_until(int64_t time_ns);
};

/// False if it is time to stop.
bool Sampler::State::sleep_until(int64_t time_ns) {
  std::unique_lock lock(mutex);
  // steady_clock is CLOCK_MONOTONIC, and the wait is for an absolute time.
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(time_ns)};
  return !wake.wait_until(lock, until, [this] { return stopping; });
}

/// Between ticks after the probe, which shows what a tick costs.
int64_t Sampler::State::chosen_tick(int64_t probe_ticks) const {
  const int64_t interval = nanoseconds(plan.interval), period = round.shortest_period_ns();
  if (!plan.follow_sensors || period == 0 || probe_ticks == 0) return interval;
  const int64_t shortest = std::min(interval, nanoseconds(plan.shortest_tick));
  const int64_t wanted = std::clamp(period / 2, shortest, interval);
  const double cpu_per_tick = thread_cpu_s() / static_cast<double>(probe_ticks);
  const double share = cpu_per_tick / (static_cast<double>(wanted) * 1e-9);
  return share <= plan.most_cpu ? wanted : interval;
}

void Sampler::State::work() {
  std::vector<Sample> fresh;
  const int64_t begin = monotonic_now_ns();
  const int64_t probe_end = begin + nanoseconds(plan.probe);
  TickGrid grid(begin, nanoseconds(std::min(plan.probe_tick, plan.interval)));
  while (grid.next_ns() < probe_end && sleep_until(grid.next_ns()))
    sample(grid, monotonic_now_ns(), fresh), grid.advance(monotonic_now_ns());
  const int64_t tick = chosen_tick(grid.index());
  round.set_pace(tick, nanoseconds(plan.interval));
  {
    const std::lock_guard lock(mutex);
    cost.lost_ticks = 0;  // while probing, ticks are closer than requested
  }
  grid = TickGrid(probe_end, tick);
  while (sleep_until(grid.next_ns())) {
    sample(grid, monotonic_now_ns(), fresh);
    const int64_t lost = grid.advance(monotonic_now_ns());
    const std::lock_guard lock(mutex);
    cost.lost_ticks += lost;
  }
}

void Sampler::State::sample(const TickGrid& grid, int64_t now, std::vector<Sample>& fresh) {
  const bool slow = grid.next_ns() >= next_slow_ns;
  if (slow) next_slow_ns = grid.next_ns() + plan.slow_every * nanoseconds(plan.interval);
  fresh.clear();
  const SensorRound::Calls calls = round.read(grid.index(), slow, fresh);
  const auto first_own = static_cast<int32_t>(round.channels().size());
  const auto own = [&](OwnChannel which, double value) {
    fresh.push_back({first_own + which, now, value});
  };
  const double late = static_cast<double>(now - grid.next_ns()) * 1e-9;
  own(late_s, late);
  own(call_s, static_cast<double>(calls.all_ns) * 1e-9);
  const double used = thread_cpu_s();
  if (slow) {
    own(cpu_s, used);
    own(lost_ticks, static_cast<double>(cost.lost_ticks));  // only this thread changes it
  }
  {
    const std::lock_guard lock(mutex);
    ++cost.ticks;
    cost.cpu_s = used;
    cost.late_s = late;
    cost.call_s = static_cast<double>(calls.all_ns) * 1e-9;
  }
  publish(fresh, calls, slow);
}

void Sampler::State::publish(std::vector<Sample>& fresh, const SensorRound::Calls& calls,
                             bool slow) {
  std::vector<std::string> said;
  if (slow) said = round.take_troubles();
  const std::lock_guard lock(mutex);
  const size_t room = plan.most_waiting - std::min(plan.most_waiting, waiting.size());
  const size_t kept = std::min(room, fresh.size());
  waiting.insert(waiting.end(), fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(kept));
  cost.lost_samples += static_cast<int64_t>(fresh.size() - kept);
  const double longest = static_cast<double>(calls.longest_ns) * 1e-9;
  if (longest > cost.longest_call_s) {
    cost.longest_call_s = longest;
    cost.slowest_sensor = round.sensor_name(calls.slowest);
  }
  troubles.insert(troubles.end(), said.begin(), said.end());
  if (!slow) return;
  periods = round.periods();
  periods.resize(channels.size());
}

Sampler::Sampler(std::vector<std::unique_ptr<Sensor>> sensors, SamplingPlan plan)
    : state_(std::make_unique<State>(std::move(sensors), plan)) {}

Sampler::~Sampler() {
  stop();
}

const std::vector<run::Device>& Sampler::devices() const {
  return state_->round.devices();
}
const std::vector<run::SeriesSource>& Sampler::channels() const {
  return state_->channels;
}
std::vector<Gap> Sampler::gaps() const {
  return state_->round.gaps();
}

void Sampler::read_now(bool slow, std::vector<Sample>& samples) {
  TPT_EXPECT(!state_->thread.joinable());
  state_->round.read(0, slow, samples);
  for (std::string& trouble : state_->round.take_troubles())
    state_->troubles.push_back(std::move(trouble));
}

void Sampler::start() {
  TPT_EXPECT(!state_->thread.joinable());
  state_->stopping = false;
  // Signals are for the thread that waits for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->thread = std::thread([this] { state_->work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Sampler::stop() {
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

void Sampler::take(std::vector<Sample>& samples) {
  const std::lock_guard lock(state_->mutex);
  samples.insert(samples.end(), state_->waiting.begin(), state_->waiting.end());
  state_->waiting.clear();
}

std::vector<std::optional<Seconds>> Sampler::periods() const {
  const std::lock_guard lock(state_->mutex);
  return state_->periods;
}

SamplerCost Sampler::cost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->cost;
}

std::vector<std::string> Sampler::take_troubles() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->troubles, {});
}

}  // namespace triplepoint::telemetry
