// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sensor_opening.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/detached.h"

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/device_selection.h"
#include "triplepoint/telemetry/host/host.h"
#include "triplepoint/telemetry/kept_file.h"
#include "triplepoint/telemetry/nvml/sensor.h"

namespace triplepoint::telemetry {

/// Held by the opening and by its threads.
struct SensorOpening::State : std::enable_shared_from_this<SensorOpening::State> {
  /// Places of parts in what take() returns.
  enum Place { nvidia, amd, proc, board, network, facts, num_places };
  using Devices = std::vector<run::Device>;

  SensorOptions options;
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::map<int, std::vector<Sensors>> ready;     // by place
  std::map<std::string, int64_t> under_way;      // what is being opened, since when
  std::optional<Devices> nvidia_list, amd_list;  // all that are there

  void start(const std::string& what, std::function<void(State&)> open);
  void deliver(int place, Sensors part);
  void publish(std::optional<Devices>& list, Devices devices);
  /// False if the time is over first.
  bool wait_until(Seconds most, const std::function<bool()>& holds,
                  const std::function<bool()>& stopped = {}) const;
};

namespace {

using State = SensorOpening::State;

// GPUs that answer within this come together, in their order.
constexpr Seconds list_limit = 2 * unit::s, open_limit = 3 * unit::s;

bool any_word_means(const std::vector<std::string>& words, const run::Device& device) {
  if (words.empty()) return true;
  return std::ranges::any_of(words, [&](const std::string& word) {
    const auto selected = select_devices({device}, {word});
    return selected && selected->front();
  });
}

/// How many GPUs of a vendor the PCI bus has, whatever the drivers say.
int on_the_bus(const Path& sysfs, std::string_view vendor) {
  int count = 0;
  const Path devices = sysfs / "bus/pci/devices";
  for (const std::string& address : names_in(devices)) {
    const std::string kind = first_line(devices / address / "class");
    const bool is_gpu = kind.starts_with("0x0302") || kind.starts_with("0x0300") ||
                        kind.starts_with("0x0380") || kind.starts_with("0x1200");
    if (is_gpu && first_line(devices / address / "vendor") == vendor) ++count;
  }
  return count;
}

void numa_from(const Path& sysfs, DeviceFacts& facts) {
  const auto node =
      leading_number(first_line(sysfs / "bus/pci/devices" / facts.device.pci / "numa_node"));
  if (node && *node >= 0) facts.numa_node = static_cast<int32_t>(*node);
}

/// One GPU of NVIDIA's on its way; by the state's mutex.
struct GpuSlot {
  enum class Stage { listing, listed, open, unwanted, failed };
  Stage stage = Stage::listing;
  DeviceFacts facts;
  std::unique_ptr<Sensor> sensor;
  GapList missing;
  std::vector<Gap> gaps;
};

/// All of NVIDIA's GPUs on their way; shared by their threads.
struct NvidiaOpening {
  std::shared_ptr<nvml::Driver> driver;
  std::vector<GpuSlot> slots;
  bool collected = false;  // who is ready after that delivers itself

  void open(State& state, size_t number);
  Sensors collect(State& state);
  static Sensors part_of(GpuSlot& slot);
};

void NvidiaOpening::open(State& state, size_t number) {
  const auto set_stage = [&](GpuSlot::Stage stage, const auto& change) {
    const std::lock_guard lock(state.mutex);
    change(slots[number]);
    slots[number].stage = stage;
    state.changed.notify_all();
  };
  std::vector<Gap> gaps;
  auto listed = nvml::list_device(*driver, static_cast<int32_t>(number), gaps);
  if (!listed)
    return set_stage(GpuSlot::Stage::failed, [&](GpuSlot& slot) { slot.gaps = std::move(gaps); });
  set_stage(GpuSlot::Stage::listed, [&](GpuSlot& slot) { slot.facts.device = listed->device; });
  if (!any_word_means(state.options.devices, listed->device))
    return set_stage(GpuSlot::Stage::unwanted, [](GpuSlot&) {});
  DeviceFacts facts = nvml::device_facts(*driver, *listed);
  numa_from(state.options.paths.sysfs, facts);
  GapList missing;
  auto sensor = nvml::make_sensor(driver, {*std::move(listed)}, state.options.gpm, &missing);
  const std::lock_guard lock(state.mutex);
  GpuSlot& slot = slots[number];
  slot.stage = GpuSlot::Stage::open;
  slot.facts = std::move(facts);
  slot.sensor = std::move(sensor);
  slot.missing = std::move(missing);
  if (collected) {
    Sensors late = part_of(slot);
    late.gaps = slot.missing.gaps();
    state.ready[State::nvidia].push_back(std::move(late));
  }
  state.changed.notify_all();
}

/// The sensor and its facts; facts alone where it is not open.
Sensors NvidiaOpening::part_of(GpuSlot& slot) {
  Sensors part;
  slot.facts.device.index = 0;
  slot.facts.vendor = "nvidia";
  slot.facts.sensor = slot.sensor ? 0 : -1;
  if (slot.sensor) part.all.push_back(std::move(slot.sensor));
  part.devices.push_back(slot.facts);
  return part;
}

Sensors NvidiaOpening::collect(State& state) {
  const std::lock_guard lock(state.mutex);
  Sensors part;
  GapList missing;
  for (GpuSlot& slot : slots) {
    const auto stage = slot.stage;
    part.gaps.insert(part.gaps.end(), slot.gaps.begin(), slot.gaps.end());
    if (stage == GpuSlot::Stage::failed || stage == GpuSlot::Stage::unwanted) continue;
    if (!any_word_means(state.options.devices, slot.facts.device)) continue;
    add_sensors(part, part_of(slot));
    missing.add(slot.missing);
  }
  for (Gap& gap : missing.gaps())
    part.gaps.push_back(std::move(gap));
  collected = true;
  return part;
}

bool all_beyond(const NvidiaOpening& opening, GpuSlot::Stage stage) {
  return std::ranges::all_of(opening.slots,
                             [&](const GpuSlot& slot) { return slot.stage > stage; });
}

void open_nvidia(State& state) {
  auto opened = nvml::Driver::open(state.options.paths.nvml);
  if (!opened) {
    const bool there = on_the_bus(state.options.paths.sysfs, "0x10de") > 0;
    Sensors part;
    part.gaps.push_back({"NVIDIA GPUs", opened.error().what,
                         there ? "install NVIDIA's driver, or in a container add --gpus all" : ""});
    state.publish(state.nvidia_list, {});
    return state.deliver(State::nvidia, std::move(part));
  }
  const auto all = std::make_shared<NvidiaOpening>();
  all->driver = *std::move(opened);
  all->slots.resize(static_cast<size_t>(nvml::num_devices(*all->driver)));
  for (size_t i = 0; i < all->slots.size(); ++i) {
    all->slots[i].facts.device.local = static_cast<int32_t>(i);
    state.start(fmt::format("GPU {}", i), [all, i](State& of) { all->open(of, i); });
  }
  state.wait_until(list_limit, [&] { return all_beyond(*all, GpuSlot::Stage::listing); });
  State::Devices listed;
  {
    const std::lock_guard lock(state.mutex);
    for (const GpuSlot& slot : all->slots)
      if (slot.stage != GpuSlot::Stage::failed) listed.push_back(slot.facts.device);
  }
  state.publish(state.nvidia_list, std::move(listed));
  state.wait_until(open_limit, [&] { return all_beyond(*all, GpuSlot::Stage::listed); });
  state.deliver(State::nvidia, all->collect(state));
  Sensors versions;
  nvml::driver_facts(*all->driver, versions.node);
  state.deliver(State::nvidia, std::move(versions));
}

void open_amd(State& state) {
  Sensors part;
  const auto node = amd::find_devices(state.options.paths, part.gaps);
  // NVIDIA's GPUs are numbered first.
  state.wait_until(list_limit + open_limit, [&] { return state.nvidia_list.has_value(); });
  int32_t first = 0;
  {
    const std::lock_guard lock(state.mutex);
    if (state.nvidia_list) first = static_cast<int32_t>(state.nvidia_list->size());
  }
  std::vector<bool> wanted;
  for (run::Device& device : node->devices()) {
    device.local += first;
    wanted.push_back(any_word_means(state.options.devices, device));
  }
  state.publish(state.amd_list, node->devices());
  if (std::ranges::count(wanted, true) > 0) {
    part.all.push_back(node->open(wanted));
    part.devices = node->facts(wanted);
  }
  state.deliver(State::amd, std::move(part));
}

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

void add_facts(NodeFacts& node, NodeFacts later) {
  const std::string driver = node.nvidia_driver, cuda = node.cuda;
  if (!later.host.empty() || !later.kernel.empty() || !later.cpu.empty()) {
    node = std::move(later);
    if (node.nvidia_driver.empty()) node.nvidia_driver = driver;
    if (node.cuda.empty()) node.cuda = cuda;
    return;
  }
  if (!later.nvidia_driver.empty()) node.nvidia_driver = later.nvidia_driver;
  if (!later.cuda.empty()) node.cuda = later.cuda;
}

void add_sensors(Sensors& sensors, Sensors later) {
  const auto first = static_cast<int32_t>(sensors.all.size());
  for (auto& sensor : later.all)
    sensors.all.push_back(std::move(sensor));
  for (DeviceFacts& facts : later.devices) {
    if (facts.sensor >= 0) facts.sensor += first;
    const auto silent = std::ranges::find_if(sensors.devices, [&](const DeviceFacts& other) {
      return other.sensor < 0 && other.device.local == facts.device.local;
    });
    if (silent != sensors.devices.end())
      *silent = std::move(facts);
    else
      sensors.devices.push_back(std::move(facts));
  }
  std::ranges::stable_sort(sensors.devices, {},
                           [](const DeviceFacts& facts) { return facts.device.local; });
  sensors.gaps.insert(sensors.gaps.end(), later.gaps.begin(), later.gaps.end());
  add_facts(sensors.node, std::move(later.node));
}

void SensorOpening::State::start(const std::string& what, std::function<void(State&)> open) {
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

void SensorOpening::State::deliver(int place, Sensors part) {
  const std::lock_guard lock(mutex);
  ready[place].push_back(std::move(part));
  changed.notify_all();
}

void SensorOpening::State::publish(std::optional<Devices>& list, Devices devices) {
  const std::lock_guard lock(mutex);
  list = std::move(devices);
  changed.notify_all();
}

bool SensorOpening::State::wait_until(Seconds most, const std::function<bool()>& holds,
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

SensorOpening::SensorOpening(const SensorOptions& options) : state_(std::make_shared<State>()) {
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
                                static_cast<double>(monotonic_now_ns() - since) * 1e-9),
                    "dmesg shows what the driver says (Xid, NVRM, blocked for more than); reset "
                    "the GPU or restart the node"});
  return gaps;
}

}  // namespace triplepoint::telemetry
