// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sampler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include <pthread.h>

#include "triplepoint/base/expect.h"

#include "triplepoint/telemetry/sampler/sensor_round.h"
#include "triplepoint/telemetry/sampler/tick_grid.h"

namespace triplepoint::telemetry {

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
    cost.lost_ticks = 0;  // while probing, ticks are closer than anybody asked for
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
