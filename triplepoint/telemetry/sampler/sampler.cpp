// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sampler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/sampler/sampler_state.h"

namespace triplepoint::telemetry {

namespace {

using Clock = std::chrono::steady_clock;

// A command that has ended shall be out within two seconds, whatever a driver does.
constexpr std::chrono::milliseconds longest_stop{800}, longest_request{2000}, look_again{20};

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

Sampler::Sampler(std::vector<std::unique_ptr<Sensor>> sensors, SamplingPlan plan)
    : state_(std::make_shared<SamplerState>(plan)) {
  state_->begin_ns = monotonic_now_ns();
  threads_ = state_->adopt(std::move(sensors));
  state_->first_own = static_cast<int32_t>(state_->channels.size());
  for (int i = 0; i < num_own_channels; ++i)
    state_->channels.push_back(own_channel(static_cast<OwnChannel>(i)));
  for (const run::SeriesSource& channel : state_->channels)
    state_->periods.push_back(channel.period);
}

Sampler::~Sampler() {
  stop();
}

const std::vector<run::Device>& Sampler::devices() const {
  return state_->devices;
}
const std::vector<run::SeriesSource>& Sampler::channels() const {
  return state_->channels;
}
const std::vector<Gap>& Sampler::gaps() const {
  return state_->gaps;
}

void Sampler::add(std::vector<std::unique_ptr<Sensor>> sensors,
                  const std::vector<run::Device>& silent) {
  const auto adopted = state_->adopt(std::move(sensors));
  for (run::Device device : silent) {
    device.index = static_cast<int32_t>(state_->devices.size());
    state_->devices.push_back(device);
    state_->silent.push_back(std::move(device));
  }
  const std::lock_guard lock(state_->mutex);
  for (size_t i = state_->periods.size(); i < state_->channels.size(); ++i)
    state_->periods.push_back(state_->channels[i].period);
  for (const auto& thread : adopted)
    state_->started ? state_->start(thread) : threads_.push_back(thread);
}

void Sampler::read_now(bool slow, std::vector<Sample>& samples) {
  SamplerState& state = *state_;
  TPT_EXPECT(!state.started || state.on_request);
  if (!state.started) {
    state.on_request = true;
    start();
  }
  {
    std::unique_lock lock(state.mutex);
    const int64_t request = ++state.requested;
    state.request_slow = slow;
    state.wake.notify_all();
    for (const auto end = Clock::now() + longest_request; Clock::now() < end;) {
      const int64_t now = monotonic_now_ns();
      const bool all_served = std::ranges::all_of(state.threads, [&](const auto& thread) {
        return thread->served >= request || thread->is_stuck(now);
      });
      if (all_served) break;
      state.changed.wait_for(lock, look_again);
    }
  }
  take(samples);
}

void Sampler::start() {
  TPT_EXPECT(!state_->started);
  state_->started = true;
  state_->begin_ns = monotonic_now_ns();
  const std::lock_guard lock(state_->mutex);
  for (const auto& thread : std::exchange(threads_, {}))
    state_->start(thread);
  state_->start_watch();
}

void Sampler::stop() {
  SamplerState& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.started || std::exchange(state.stopping, true)) return;
  state.wake.notify_all();
  for (const auto end = Clock::now() + longest_stop; Clock::now() < end;) {
    const int64_t now = monotonic_now_ns();
    const bool all_ended = std::ranges::all_of(
        state.threads, [&](const auto& thread) { return thread->ended || thread->is_stuck(now); });
    if (state.watch_ended && all_ended) return;
    state.changed.wait_for(lock, look_again);
  }
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

std::map<int32_t, std::vector<int64_t>> Sampler::processes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->processes;
}

std::vector<std::string> Sampler::take_troubles() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->troubles, {});
}

}  // namespace triplepoint::telemetry
