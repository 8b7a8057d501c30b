// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sampler_state.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>

#include "triplepoint/system/process.h"

namespace triplepoint::telemetry {
namespace {

constexpr int64_t ms = 1'000'000;
constexpr std::chrono::milliseconds look_every{200};
// No other thread waits for a call that takes longer.
constexpr int64_t stuck_after_ns = 300 * ms;
constexpr int64_t overdue_after_ns = 2000 * ms;
constexpr int64_t longest_listing_wait_ns = 60'000 * ms;

int64_t nanoseconds(Seconds time) {
  return static_cast<int64_t>(time / unit::ns);
}

double cpu_of_thread_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return as_real(used.tv_sec) + 1e-9 * as_real(used.tv_nsec);
}

std::string name_of(const Sensor& sensor) {
  if (sensor.devices().empty()) return std::string(sensor.name());
  const run::Device& gpu = sensor.devices().front();
  return fmt::format("GPU {}{}", gpu.local, gpu.pci.empty() ? "" : " (" + gpu.pci + ")");
}

}  // namespace

SensorThread::SensorThread(std::unique_ptr<Sensor> sensor, int32_t first_channel_of_it)
    : round(std::move(sensor), monotonic_now_ns), first_channel(first_channel_of_it) {}

bool SensorThread::is_stuck(int64_t now_ns) const {
  return call_began_ns != 0 && now_ns - call_began_ns > stuck_after_ns;
}

std::vector<std::shared_ptr<SensorThread>> SamplerState::adopt(
    std::vector<std::unique_ptr<Sensor>> sensors) {
  std::vector<std::shared_ptr<SensorThread>> adopted;
  for (std::unique_ptr<Sensor>& sensor : sensors) {
    const std::vector<int32_t> index =
        mapped(sensor->devices(), [this](const run::Device& device) { return index_of(device); });
    const std::string name = name_of(*sensor);
    gaps.insert(gaps.end(), sensor->gaps().begin(), sensor->gaps().end());
    const auto thread =
        std::make_shared<SensorThread>(std::move(sensor), static_cast<int32_t>(channels.size()));
    thread->name = name;
    thread->devices = index;
    for (run::SeriesSource about : thread->round.channels()) {
      if (!about.of_node) about.device = index[as_size(about.device)];
      channels.push_back(std::move(about));
    }
    adopted.push_back(thread);
  }
  return adopted;
}

/// A device that was listed before it could be opened keeps its index.
int32_t SamplerState::index_of(run::Device device) {
  const auto known = std::ranges::find(silent, device.local, &run::Device::local);
  if (known != silent.end()) {
    device.index = known->index;
    silent.erase(known);
    devices[as_size(device.index)] = device;
    return device.index;
  }
  device.index = static_cast<int32_t>(devices.size());
  devices.push_back(std::move(device));
  return devices.back().index;
}

/// Under the mutex.
void SamplerState::start(const std::shared_ptr<SensorThread>& thread) {
  thread->served = requested - (requested > 0 ? 1 : 0);
  threads.push_back(thread);
  start_detached([state = shared_from_this(), thread] { state->work(*thread); });
}

void SamplerState::work(SensorThread& thread) {
  on_request ? serve_requests(thread) : follow_grid(thread);
  thread.round.close();
  const std::lock_guard lock(mutex);
  thread.ended = true;
  changed.notify_all();
}

/// False if it is time to stop.
bool SamplerState::sleep_until(int64_t time_ns) {
  std::unique_lock lock(mutex);
  // steady_clock is CLOCK_MONOTONIC, and the wait is for an absolute time.
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(time_ns)};
  return !wake.wait_until(lock, until, [this] { return stopping; });
}

/// Between ticks after the probe, which shows what a tick costs.
int64_t SamplerState::chosen_tick(const SensorThread& thread, double cpu_per_tick) {
  const int64_t period = thread.round.shortest_period_ns();
  const int64_t interval = nanoseconds(plan.interval);
  if (!plan.follow_sensors || period == 0) return interval;
  const int64_t shortest = std::min(interval, nanoseconds(plan.shortest_tick));
  const int64_t wanted = std::clamp(period / 2, shortest, interval);
  const double share = cpu_per_tick / (as_real(wanted) * 1e-9);
  const std::lock_guard lock(mutex);
  return share * as_real(threads.size()) <= plan.most_cpu ? wanted : interval;
}

/// Reads often, to see how often values change. The ticks from then on; nothing if it is time to
/// stop.
std::optional<TickGrid> SamplerState::probe(SensorThread& thread) {
  const double cpu_before = cpu_of_thread_s();
  const int64_t begin = monotonic_now_ns(), end = begin + nanoseconds(plan.probe);
  TickGrid grid(begin, nanoseconds(std::min(plan.probe_tick, plan.interval)));
  while (grid.next_ns() < end) {
    if (!sleep_until(grid.next_ns())) return std::nullopt;
    sample_on_grid(thread, grid);
    grid.advance(monotonic_now_ns());
  }
  const auto ticks = as_real(std::max<int64_t>(1, grid.index()));
  const int64_t tick = chosen_tick(thread, (cpu_of_thread_s() - cpu_before) / ticks);
  thread.round.set_interval(tick, nanoseconds(plan.interval));
  return TickGrid(end, tick);
}

void SamplerState::follow_grid(SensorThread& thread) {
  auto grid = probe(thread);
  while (grid && sleep_until(grid->next_ns())) {
    sample_on_grid(thread, *grid);
    const int64_t lost = grid->advance(monotonic_now_ns());
    const std::lock_guard lock(mutex);
    cost.lost_ticks += lost;
  }
  // One more look, so that what is measured reaches to the end.
  sample(thread, {.index = 0, .due_ns = monotonic_now_ns(), .slow = true});
}

void SamplerState::serve_requests(SensorThread& thread) {
  while (true) {
    int64_t request = 0;
    bool slow = false;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || requested > thread.served; });
      if (stopping) return;
      request = requested;
      slow = request_slow;
    }
    sample(thread, {.index = 0, .due_ns = monotonic_now_ns(), .slow = slow});
    const std::lock_guard lock(mutex);
    thread.served = request;
    changed.notify_all();
  }
}

void SamplerState::sample_on_grid(SensorThread& thread, TickGrid& grid) {
  const bool slow = grid.next_ns() >= thread.next_slow_ns;
  if (slow) thread.next_slow_ns = grid.next_ns() + plan.slow_every * nanoseconds(plan.interval);
  sample(thread, {.index = grid.index(), .due_ns = grid.next_ns(), .slow = slow});
}

void SamplerState::sample(SensorThread& thread, const Tick& tick) {
  const int64_t began = monotonic_now_ns();
  {
    const std::lock_guard lock(mutex);
    thread.call_began_ns = began;
  }
  std::vector<Sample> samples;
  const int64_t took = thread.round.read(tick.index, tick.slow, samples);
  for (Sample& one : samples)
    one.channel += thread.first_channel;
  std::vector<std::string> said;
  if (tick.slow) said = thread.round.take_troubles();
  if (tick.slow && plan.list_processes && !thread.devices.empty()) list_processes(thread);
  const double used = cpu_of_thread_s(), call = as_real(took) * 1e-9;
  const std::lock_guard lock(mutex);
  if (thread.overdue_ns == thread.call_began_ns)
    troubles.push_back(fmt::format("{} answers again after {:.1f} s", thread.name,
                                   as_real(monotonic_now_ns() - began) * 1e-9));
  thread.call_began_ns = 0;
  cost.cpu_s += used - std::exchange(thread.cpu_s, used);
  ++cost.ticks;
  thread.late_s = as_real(began - tick.due_ns) * 1e-9;
  thread.call_s = call;
  if (call > cost.longest_call_s) {
    cost.longest_call_s = call;
    cost.slowest_sensor = thread.round.name();
  }
  keep(samples);
  troubles.insert(troubles.end(), said.begin(), said.end());
  if (tick.slow) std::ranges::copy(thread.round.periods(), periods.begin() + thread.first_channel);
}

/// As many as there is room for. Under the mutex.
void SamplerState::keep(const std::vector<Sample>& samples) {
  const size_t room = plan.most_waiting - std::min(plan.most_waiting, waiting.size());
  const auto kept = static_cast<std::ptrdiff_t>(std::min(room, samples.size()));
  waiting.insert(waiting.end(), samples.begin(), samples.begin() + kept);
  cost.lost_samples += static_cast<int64_t>(samples.size()) - kept;
}

/// More and more rarely: processes come in the first minute.
void SamplerState::list_processes(SensorThread& thread) {
  const int64_t now = monotonic_now_ns();
  if (thread.next_listing_ns == 0) thread.next_listing_ns = now + thread.listing_wait_ns;
  if (now < thread.next_listing_ns) return;
  thread.listing_wait_ns = std::min(2 * thread.listing_wait_ns, longest_listing_wait_ns);
  thread.next_listing_ns = now + thread.listing_wait_ns;
  const std::vector<DeviceProcess> found = thread.round.processes();
  const std::lock_guard lock(mutex);
  for (const int32_t device : thread.devices)
    processes[device].clear();
  for (const DeviceProcess& process : found)
    processes[thread.devices[as_size(process.device)]].push_back(process.pid);
}

void SamplerState::start_watch() {
  start_detached([state = shared_from_this()] { state->watch(); });
}

/// Looks at the threads from outside. It calls no sensor, so nothing can hold it up.
void SamplerState::watch() {
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, look_every, [this] { return stopping; })) {
    const int64_t now = monotonic_now_ns();
    for (const auto& thread : threads)
      look_at(*thread, now);
    add_own();
  }
  add_own();
  watch_ended = true;
  changed.notify_all();
}

void SamplerState::add_own() {
  const double used = cpu_of_thread_s();
  cost.cpu_s += used - std::exchange(watch_cpu_s, used);
  if (on_request) return;
  double late = 0, calls = 0;
  for (const auto& thread : threads) {
    late = std::max(late, thread->late_s);
    calls += thread->call_s;
  }
  const int64_t now = monotonic_now_ns();
  keep({{first_own + OwnChannel::cpu_s, now, cost.cpu_s},
        {first_own + OwnChannel::late_s, now, late},
        {first_own + OwnChannel::lost_ticks, now, as_real(cost.lost_ticks)},
        {first_own + OwnChannel::call_s, now, calls}});
}

void SamplerState::look_at(SensorThread& thread, int64_t now_ns) {
  const int64_t began = thread.call_began_ns;
  // Two looks have to find the same call: where the whole process was stopped, nothing is stuck.
  const bool is_same = began != 0 && began == std::exchange(thread.watched_call_ns, began);
  if (!is_same || now_ns - began < overdue_after_ns || thread.overdue_ns == began) return;
  thread.overdue_ns = began;
  troubles.push_back(fmt::format(
      "{} has not answered since {}: a call does not return; its series end here, the other "
      "sensors are read on",
      thread.name, moment_text(began)));
}

/// "3.0 s (04:15:32 UTC)", counted from the begin of sampling.
std::string SamplerState::moment_text(int64_t time_ns) const {
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  const auto then =
      static_cast<std::time_t>(wall.tv_sec - (monotonic_now_ns() - time_ns) / (1000 * ms));
  return fmt::format("{:.1f} s ({:%H:%M:%S} UTC)", as_real(time_ns - begin_ns) * 1e-9,
                     fmt::gmtime(then));
}

}  // namespace triplepoint::telemetry
