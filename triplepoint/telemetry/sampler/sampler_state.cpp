// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sampler_state.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/system/process.h"

namespace triplepoint::telemetry {
namespace {

constexpr int64_t ms = 1'000'000;
constexpr std::chrono::milliseconds look_every{200};
// A call that takes longer is left to its thread: the other sensors get another one.
constexpr int64_t isolate_after_ns = 300 * ms;
constexpr int64_t overdue_after_ns = 2000 * ms;
constexpr int64_t longest_listing_wait_ns = 60'000 * ms;

int64_t nanoseconds(Seconds time) {
  return static_cast<int64_t>(time / unit::ns);
}

double cpu_of_thread_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

std::string name_of_lane(const Sensor& sensor) {
  std::vector<int32_t> numbers;
  for (const run::Device& device : sensor.devices())
    numbers.push_back(device.local);
  if (numbers.empty()) return std::string(sensor.name());
  if (numbers.size() > 1) return "GPUs " + ranges_of(numbers);
  const run::Device& only = sensor.devices().front();
  return fmt::format("GPU {}{}", only.local, only.pci.empty() ? "" : " (" + only.pci + ")");
}

}  // namespace

SensorLane::SensorLane(std::unique_ptr<Sensor> sensor, int32_t first_channel_of_it)
    : round(std::move(sensor), monotonic_now_ns), first_channel(first_channel_of_it) {}

bool SensorReader::is_stuck(int64_t now_ns) const {
  return calling != nullptr && now_ns - calling->call_began_ns > isolate_after_ns;
}

std::vector<std::shared_ptr<SensorLane>> SamplerState::adopt(
    std::vector<std::unique_ptr<Sensor>> sensors) {
  std::vector<std::shared_ptr<SensorLane>> lanes;
  for (std::unique_ptr<Sensor>& sensor : sensors) {
    std::vector<int32_t> index;
    for (const run::Device& device : sensor->devices())
      index.push_back(index_of(device));
    const std::string name = name_of_lane(*sensor);
    gaps.insert(gaps.end(), sensor->gaps().begin(), sensor->gaps().end());
    const auto lane =
        std::make_shared<SensorLane>(std::move(sensor), static_cast<int32_t>(channels.size()));
    lane->name = name;
    lane->devices = index;
    for (run::SeriesSource about : lane->round.channels()) {
      if (!about.of_node) about.device = index[static_cast<size_t>(about.device)];
      channels.push_back(std::move(about));
    }
    lanes.push_back(lane);
  }
  return lanes;
}

/// A device that was listed before it could be opened keeps its index.
int32_t SamplerState::index_of(run::Device device) {
  const auto known = std::find_if(silent.begin(), silent.end(), [&](const run::Device& other) {
    return other.local == device.local;
  });
  if (known != silent.end()) {
    device.index = known->index;
    silent.erase(known);
    devices[static_cast<size_t>(device.index)] = device;
    return device.index;
  }
  device.index = static_cast<int32_t>(devices.size());
  devices.push_back(std::move(device));
  return devices.back().index;
}

/// To the thread that reads all others, where no call holds it up. Under the mutex.
void SamplerState::give_to_main(std::vector<std::shared_ptr<SensorLane>> lanes) {
  const int64_t now = monotonic_now_ns();
  for (const auto& reader : readers) {
    if (!reader->is_main || reader->is_stuck(now)) continue;
    reader->lanes.insert(reader->lanes.end(), lanes.begin(), lanes.end());
    reader->has_new_lanes = true;
    return;
  }
  start_reader(std::move(lanes), false);
}

/// Under the mutex.
void SamplerState::start_reader(std::vector<std::shared_ptr<SensorLane>> lanes, bool is_main) {
  const auto reader = std::make_shared<SensorReader>();
  reader->lanes = std::move(lanes);
  reader->is_main = is_main;
  reader->served = requested - (requested > 0 ? 1 : 0);
  readers.push_back(reader);
  start_detached([state = shared_from_this(), reader] { state->work(*reader); });
}

void SamplerState::work(SensorReader& reader) {
  on_request ? serve_requests(reader) : follow_grid(reader);
  std::vector<std::shared_ptr<SensorLane>> lanes;
  {
    const std::lock_guard lock(mutex);
    lanes = reader.lanes;
  }
  for (const auto& lane : lanes)
    lane->round.close();
  const std::lock_guard lock(mutex);
  reader.ended = true;
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
int64_t SamplerState::chosen_tick(const SensorReader& reader, double cpu_per_tick) {
  int64_t period = 0;
  {
    const std::lock_guard lock(mutex);
    for (const auto& lane : reader.lanes)
      if (const int64_t one = lane->round.shortest_period_ns(); one > 0)
        period = period == 0 ? one : std::min(period, one);
  }
  const int64_t interval = nanoseconds(plan.interval);
  if (!plan.follow_sensors || period == 0) return interval;
  const int64_t shortest = std::min(interval, nanoseconds(plan.shortest_tick));
  const int64_t wanted = std::clamp(period / 2, shortest, interval);
  const double share = cpu_per_tick / (static_cast<double>(wanted) * 1e-9);
  return share <= plan.most_cpu ? wanted : interval;
}

bool SamplerState::has_new_lanes(SensorReader& reader) {
  const std::lock_guard lock(mutex);
  return std::exchange(reader.has_new_lanes, false);
}

/// Reads often, to see how often values change. The ticks from then on; nothing if it is time to
/// stop.
std::optional<TickGrid> SamplerState::probe(SensorReader& reader, Batch& batch) {
  const double cpu_before = cpu_of_thread_s();
  int64_t end = monotonic_now_ns() + nanoseconds(plan.probe);
  TickGrid grid(monotonic_now_ns(), nanoseconds(std::min(plan.probe_tick, plan.interval)));
  while (grid.next_ns() < end) {
    if (!sleep_until(grid.next_ns())) return std::nullopt;
    sample_on_grid(reader, grid, batch);
    grid.advance(monotonic_now_ns());
    if (has_new_lanes(reader)) end = grid.next_ns() + nanoseconds(plan.probe);
  }
  const auto ticks = static_cast<double>(std::max<int64_t>(1, grid.index()));
  const int64_t tick = chosen_tick(reader, (cpu_of_thread_s() - cpu_before) / ticks);
  const std::lock_guard lock(mutex);
  for (const auto& lane : reader.lanes)
    lane->round.set_pace(tick, nanoseconds(plan.interval));
  return TickGrid(end, tick);
}

void SamplerState::follow_grid(SensorReader& reader) {
  Batch batch;
  auto grid = probe(reader, batch);
  while (grid && sleep_until(grid->next_ns())) {
    sample_on_grid(reader, *grid, batch);
    count_lost(reader, grid->advance(monotonic_now_ns()));
    if (has_new_lanes(reader)) grid = probe(reader, batch);
  }
  // One more look, so that what is measured reaches to the end.
  sample(reader, {.index = 0, .due_ns = monotonic_now_ns(), .slow = true}, batch);
}

void SamplerState::count_lost(const SensorReader& reader, int64_t ticks) {
  const std::lock_guard lock(mutex);
  if (reader.is_main) cost.lost_ticks += ticks;
}

void SamplerState::serve_requests(SensorReader& reader) {
  Batch batch;
  while (true) {
    int64_t request = 0;
    bool slow = false;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || requested > reader.served; });
      if (stopping) return;
      request = requested;
      slow = request_slow;
    }
    sample(reader, {.index = 0, .due_ns = monotonic_now_ns(), .slow = slow}, batch);
    const std::lock_guard lock(mutex);
    reader.served = request;
    changed.notify_all();
  }
}

void SamplerState::sample_on_grid(SensorReader& reader, const TickGrid& grid, Batch& batch) {
  const bool slow = grid.next_ns() >= reader.next_slow_ns;
  if (slow) reader.next_slow_ns = grid.next_ns() + plan.slow_every * nanoseconds(plan.interval);
  sample(reader, {.index = grid.index(), .due_ns = grid.next_ns(), .slow = slow}, batch);
}

void SamplerState::sample(SensorReader& reader, const Tick& tick, Batch& batch) {
  const int64_t began = monotonic_now_ns();
  batch.samples.clear();
  batch.troubles.clear();
  batch.all_ns = batch.longest_ns = 0;
  size_t number = 0;
  while (const auto lane = begin_call(reader, number++)) {
    read_lane(*lane, tick, batch);
    end_call(reader, *lane);
  }
  publish(reader, tick, began, batch);
}

/// More and more rarely: processes come in the first minute.
void SamplerState::list_processes(SensorLane& lane) {
  const int64_t now = monotonic_now_ns();
  if (lane.next_listing_ns == 0) lane.next_listing_ns = now + lane.listing_wait_ns;
  if (now < lane.next_listing_ns) return;
  lane.listing_wait_ns = std::min(2 * lane.listing_wait_ns, longest_listing_wait_ns);
  lane.next_listing_ns = now + lane.listing_wait_ns;
  const std::vector<DeviceProcess> found = lane.round.processes();
  const std::lock_guard lock(mutex);
  for (const int32_t device : lane.devices)
    processes[device].clear();
  for (const DeviceProcess& process : found)
    processes[lane.devices[static_cast<size_t>(process.device)]].push_back(process.pid);
}

void SamplerState::read_lane(SensorLane& lane, const Tick& tick, Batch& batch) {
  const size_t before = batch.samples.size();
  const int64_t took = lane.round.read(tick.index, tick.slow, batch.samples);
  for (size_t i = before; i < batch.samples.size(); ++i)
    batch.samples[i].channel += lane.first_channel;
  batch.all_ns += took;
  if (took > batch.longest_ns) {
    batch.longest_ns = took;
    batch.slowest = lane.round.name();
  }
  if (!tick.slow) return;
  if (plan.list_processes && !lane.devices.empty()) list_processes(lane);
  for (std::string& trouble : lane.round.take_troubles())
    batch.troubles.push_back(std::move(trouble));
}

/// The lane whose turn it is. Lanes that another thread has taken over are none of this reader's.
std::shared_ptr<SensorLane> SamplerState::begin_call(SensorReader& reader, size_t number) {
  const std::lock_guard lock(mutex);
  if (number >= reader.lanes.size()) return nullptr;
  reader.calling = reader.lanes[number];
  reader.calling->call_began_ns = monotonic_now_ns();
  return reader.calling;
}

void SamplerState::end_call(SensorReader& reader, SensorLane& lane) {
  const std::lock_guard lock(mutex);
  if (lane.overdue_ns == lane.call_began_ns)
    troubles.push_back(
        fmt::format("{} answers again after {:.1f} s", lane.name,
                    static_cast<double>(monotonic_now_ns() - lane.call_began_ns) * 1e-9));
  lane.call_began_ns = 0;
  reader.calling.reset();
}

double SamplerState::cpu_of_all() const {
  double sum = watch_cpu_s;
  for (const auto& reader : readers)
    sum += reader->cpu_s;
  return sum;
}

void SamplerState::add_own(const SensorReader& reader, const Tick& tick, int64_t began_ns,
                           Batch& batch) {
  if (on_request || !reader.is_main) return;
  const auto own = [&](OwnChannel which, double value) {
    batch.samples.push_back({first_own + which, began_ns, value});
  };
  own(late_s, cost.late_s);
  own(call_s, cost.call_s);
  if (!tick.slow) return;
  own(cpu_s, cost.cpu_s);
  own(lost_ticks, static_cast<double>(cost.lost_ticks));
}

void SamplerState::publish(SensorReader& reader, const Tick& tick, int64_t began_ns, Batch& batch) {
  const double used = cpu_of_thread_s();
  const std::lock_guard lock(mutex);
  reader.cpu_s = used;
  cost.cpu_s = cpu_of_all();
  if (reader.is_main) {
    ++cost.ticks;
    cost.late_s = static_cast<double>(began_ns - tick.due_ns) * 1e-9;
    cost.call_s = static_cast<double>(batch.all_ns) * 1e-9;
  }
  add_own(reader, tick, began_ns, batch);
  const size_t room = plan.most_waiting - std::min(plan.most_waiting, waiting.size());
  const auto kept = static_cast<std::ptrdiff_t>(std::min(room, batch.samples.size()));
  waiting.insert(waiting.end(), batch.samples.begin(), batch.samples.begin() + kept);
  cost.lost_samples += static_cast<int64_t>(batch.samples.size()) - kept;
  if (const double longest = static_cast<double>(batch.longest_ns) * 1e-9;
      longest > cost.longest_call_s) {
    cost.longest_call_s = longest;
    cost.slowest_sensor = batch.slowest;
  }
  troubles.insert(troubles.end(), batch.troubles.begin(), batch.troubles.end());
  if (!tick.slow) return;
  for (const auto& lane : reader.lanes)
    std::ranges::copy(lane->round.periods(), periods.begin() + lane->first_channel);
}

void SamplerState::start_watch() {
  start_detached([state = shared_from_this()] { state->watch(); });
}

/// Looks at the readers from outside. It calls no sensor, so nothing can hold it up.
void SamplerState::watch() {
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, look_every, [this] { return stopping; })) {
    const int64_t now = monotonic_now_ns();
    for (size_t i = 0; i < readers.size(); ++i)
      look_at(std::shared_ptr(readers[i]), now);
    watch_cpu_s = cpu_of_thread_s();
  }
  watch_ended = true;
  changed.notify_all();
}

void SamplerState::look_at(const std::shared_ptr<SensorReader>& reader, int64_t now_ns) {
  const auto lane = reader->calling;
  const int64_t began = lane ? lane->call_began_ns : 0;
  // Two looks have to find the same call: where the whole process was stopped, nothing is stuck.
  const bool is_same = began != 0 && began == reader->watched_call_ns;
  reader->watched_call_ns = began;
  if (!is_same) return;
  if (now_ns - began > isolate_after_ns && reader->lanes.size() > 1) divide(*reader, lane);
  if (now_ns - began < overdue_after_ns || lane->overdue_ns == began) return;
  lane->overdue_ns = began;
  troubles.push_back(fmt::format(
      "{} has not answered since {}: a call does not return; its series end here, the other "
      "sensors are read on",
      lane->name, moment_text(began)));
}

/// The reader keeps the sensor in whose call it is; the others go on without it. Where that is a
/// GPU, each other GPU gets a thread as well: a driver that blocks once may block again.
void SamplerState::divide(SensorReader& reader, const std::shared_ptr<SensorLane>& stuck) {
  std::vector<std::shared_ptr<SensorLane>> together, apart;
  for (const auto& lane : reader.lanes)
    if (lane != stuck)
      (stuck->devices.empty() || lane->devices.empty() ? together : apart).push_back(lane);
  reader.lanes = {stuck};
  bool is_main = std::exchange(reader.is_main, false);
  if (!together.empty()) start_reader(std::move(together), std::exchange(is_main, false));
  for (const auto& lane : apart)
    start_reader({lane}, std::exchange(is_main, false));
}

/// "3.0 s (04:15:32 UTC)", counted from the begin of sampling.
std::string SamplerState::moment_text(int64_t time_ns) const {
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  const auto then =
      static_cast<std::time_t>(wall.tv_sec - (monotonic_now_ns() - time_ns) / (1000 * ms));
  std::tm parts{};
  gmtime_r(&then, &parts);
  return fmt::format("{:.1f} s ({:02}:{:02}:{:02} UTC)",
                     static_cast<double>(time_ns - begin_ns) * 1e-9, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

}  // namespace triplepoint::telemetry
