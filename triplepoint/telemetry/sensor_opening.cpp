// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sensor_opening.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/gpu_opening.h"
#include "triplepoint/telemetry/host/host.h"

namespace triplepoint::telemetry {

namespace {

using State = OpeningState;

// Without nvidia-persistenced, a driver takes seconds to load its state.
constexpr Seconds patience = 10 * unit::s;

Sensors host_part(std::unique_ptr<Sensor> sensor) {
  Sensors part;
  if (sensor != nullptr && (!sensor->channels().empty() || !sensor->gaps().empty()))
    part.all.push_back(std::move(sensor));
  return part;
}

/// RAPL, board sensors and the node's power: what the last of them reads depends on the others.
void open_board(State& state) {
  const SensorOptions& options = state.options;
  std::vector<std::string> read_already;
  const auto add = [&](std::unique_ptr<Sensor> sensor) {
    Sensors part = host_part(std::move(sensor));
    for (const auto& one : part.all)
      for (const Channel& channel : one->channels())
        if (channel.about.of_node) read_already.push_back(channel.about.signal);
    state.deliver(State::board, std::move(part));
  };
  if (options.host) {
    add(host::open_rapl(options.paths.sysfs));
    add(host::open_hwmon(options.paths.sysfs));
  }
  if (!options.node_power) return;
  Sensors gaps;
  auto power = host::open_node_power(options, gaps.gaps);
  state.deliver(State::board, std::move(gaps));
  add(std::move(power));
  add(host::open_cray(options.paths.sysfs, read_already));
}

void open_host(State& state) {
  const auto& paths = state.options.paths;
  if (state.options.host) {
    state.start("readings of " + paths.proc.string(), [](State& of) {
      of.deliver(State::proc, host_part(host::open_proc(of.options.paths.proc)));
    });
    state.start("readings of networks", [](State& of) {
      of.deliver(State::network, host_part(host::open_network(of.options.paths.sysfs)));
    });
  }
  if (state.options.host || state.options.node_power)
    state.start("board sensors and node power", open_board);
  state.start("facts of the node", [](State& of) {
    Sensors part;
    host::node_facts(of.options.paths, part.node);
    of.deliver(State::facts, std::move(part));
  });
}

}  // namespace

void OpeningState::start(const std::string& what, std::function<void(OpeningState&)> open) {
  {
    const std::lock_guard lock(mutex);
    under_way[what] = monotonic_now_ns();
  }
  start_detached([state = shared_from_this(), what, open = std::move(open)]() mutable {
    open(*state);
    open = nullptr;
    const std::lock_guard lock(state->mutex);
    state->under_way.erase(what);
    state->changed.notify_all();
  });
}

void OpeningState::deliver(int place, Sensors part) {
  const std::lock_guard lock(mutex);
  ready[place].push_back(std::move(part));
  changed.notify_all();
}

void OpeningState::publish(std::optional<Devices>& list, Devices devices) {
  const std::lock_guard lock(mutex);
  list = std::move(devices);
  changed.notify_all();
}

bool OpeningState::wait_until(Seconds most, const std::function<bool()>& holds,
                              const std::function<bool()>& stopped) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(most / unit::s));
  std::unique_lock lock(mutex);
  while (!holds()) {
    if (Clock::now() >= end || (stopped && stopped())) return false;
    changed.wait_until(lock, std::min(end, Clock::now() + std::chrono::milliseconds(100)));
  }
  return true;
}

SensorOpening::SensorOpening(const SensorOptions& options)
    : state_(std::make_shared<OpeningState>()) {
  state_->options = options;
  const bool no_gpu =
      !options.devices.empty() &&
      std::ranges::all_of(options.devices, [](const std::string& word) { return word == "none"; });
  if (!no_gpu) {
    state_->start("NVIDIA GPUs", open_nvidia);
    state_->start("AMD GPUs", open_amd);
  }
  open_host(*state_);
}

SensorOpening::~SensorOpening() = default;

std::vector<Sensors> SensorOpening::take() {
  const std::lock_guard lock(state_->mutex);
  std::vector<Sensors> parts;
  for (auto& [place, ready] : std::exchange(state_->ready, {}))
    for (Sensors& part : ready)
      parts.push_back(std::move(part));
  return parts;
}

bool SensorOpening::is_complete() const {
  const std::lock_guard lock(state_->mutex);
  return state_->under_way.empty() && state_->ready.empty();
}

void SensorOpening::wait(Seconds most, const std::function<bool()>& stopped) const {
  state_->wait_until(
      most, [this] { return state_->under_way.empty(); }, stopped);
}

void SensorOpening::wait_for_list(Seconds most, const std::function<bool()>& stopped) const {
  const auto listed = [this] {
    return (state_->nvidia_list && state_->amd_list) || state_->under_way.empty();
  };
  state_->wait_until(most, listed, stopped);
}

std::optional<Error> SensorOpening::unknown_device() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->nvidia_list || !state_->amd_list) return std::nullopt;
  std::vector<run::Device> all = *state_->nvidia_list;
  all.insert(all.end(), state_->amd_list->begin(), state_->amd_list->end());
  const auto selected = select_devices(all, state_->options.devices);
  return selected ? std::nullopt : std::optional(selected.error());
}

std::vector<Gap> SensorOpening::outstanding() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Gap> gaps;
  for (const auto& [what, since] : state_->under_way)
    gaps.push_back({what,
                    fmt::format("no answer for {:.1f} s: a call does not return",
                                as_real(monotonic_now_ns() - since) * 1e-9),
                    "dmesg shows what the driver says (Xid, NVRM, blocked for more than); reset "
                    "the GPU or restart the node"});
  return gaps;
}

Result<Sensors> open_sensors(const SensorOptions& options) {
  const auto opening = std::make_shared<SensorOpening>(options);
  opening->wait(patience, interrupted);
  if (const auto unknown = opening->unknown_device()) return error(unknown->what);
  Sensors sensors;
  for (Sensors& part : opening->take())
    add_sensors(sensors, std::move(part));
  if (!opening->is_complete()) sensors.opening = opening;
  return sensors;
}

}  // namespace triplepoint::telemetry
