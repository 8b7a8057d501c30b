// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/open_sensors.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/host/host.h"
#include "triplepoint/telemetry/kept_file.h"
#include "triplepoint/telemetry/nvml/sensor.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

int64_t monotonic_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

namespace {

std::optional<int32_t> local_index(std::string_view text) {
  int32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

bool means(const std::string& word, const run::Device& device) {
  if (const auto one = local_index(word)) return device.local == *one;
  const auto dash = word.find('-');
  const auto first = local_index(std::string_view(word).substr(0, dash));
  if (dash != std::string::npos && first) {
    const auto last = local_index(std::string_view(word).substr(dash + 1));
    return last && device.local >= *first && device.local <= *last;
  }
  const std::string small = lower_case(word);
  if (word.find(':') != std::string::npos) return lower_case(device.pci).ends_with(small);
  return word.size() >= 4 && lower_case(device.uuid).starts_with(small);
}

std::string those_there(const std::vector<run::Device>& devices) {
  std::vector<int32_t> numbers;
  numbers.reserve(devices.size());
  for (const run::Device& device : devices)
    numbers.push_back(device.local);
  if (numbers.empty()) return "no GPU was found; see triplepoint doctor";
  return "there are " + ranges_of(numbers);
}

}  // namespace

Result<std::vector<bool>> select_devices(const std::vector<run::Device>& devices,
                                         const std::vector<std::string>& words) {
  std::vector<bool> selected(devices.size(), words.empty());
  for (const std::string& word : words) {
    if (word == "none") continue;
    bool found = false;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (means(word, devices[i])) selected[i] = found = true;
    if (!found)
      return error(
          fmt::format("no GPU is called '{}' (a number, a range like 0-3, the beginning of "
                      "a UUID or a PCI address); {}",
                      word, those_there(devices)));
  }
  return selected;
}

namespace {

template <class Text>
void replace_from(const char* variable, Text& text) {
  if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0')
    text = value;
}

/// GPUs of both vendors, found but not yet opened.
struct Found {
  std::unique_ptr<nvml::Driver> driver;
  std::vector<nvml::Listed> nvidia;
  std::unique_ptr<amd::Node> amd;
  std::vector<run::Device> devices;  // NVIDIA's first
};

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

void find_nvidia(const SensorOptions& options, Found& found, std::vector<Gap>& gaps) {
  auto driver = nvml::Driver::open(options.paths.nvml);
  if (!driver) {
    const bool there = on_the_bus(options.paths.sysfs, "0x10de") > 0;
    gaps.push_back({"NVIDIA GPUs", driver.error().what,
                    there ? "install NVIDIA's driver, or in a container add --gpus all" : ""});
    return;
  }
  found.driver = std::move(*driver);
  found.nvidia = nvml::list_devices(*found.driver, &gaps);
  for (const nvml::Listed& listed : found.nvidia)
    found.devices.push_back(listed.device);
}

void find_amd(const SensorOptions& options, Found& found, std::vector<Gap>& gaps) {
  found.amd = amd::find_devices(options.paths, gaps);
  for (run::Device& device : found.amd->devices()) {
    device.local += static_cast<int32_t>(found.nvidia.size());
    found.devices.push_back(device);
  }
}

void add(Sensors& sensors, std::unique_ptr<Sensor> sensor) {
  if (sensor != nullptr && (!sensor->channels().empty() || !sensor->gaps().empty()))
    sensors.all.push_back(std::move(sensor));
}

/// Facts of a sensor's devices, with the indices that the sensor gave them.
void add_facts(Sensors& sensors, std::vector<DeviceFacts> facts) {
  for (DeviceFacts& one : facts) {
    one.sensor = static_cast<int32_t>(sensors.all.size()) - 1;
    sensors.devices.push_back(std::move(one));
  }
}

void numa_from(const Path& sysfs, DeviceFacts& facts) {
  const auto node =
      leading_number(first_line(sysfs / "bus/pci/devices" / facts.device.pci / "numa_node"));
  if (node && *node >= 0) facts.numa_node = static_cast<int32_t>(*node);
}

void open_nvidia(const SensorOptions& options, Found& found, const std::vector<bool>& selected,
                 Sensors& sensors) {
  if (found.driver == nullptr) return;
  nvml::driver_facts(*found.driver, sensors.node);
  std::vector<nvml::Listed> wanted;
  std::vector<DeviceFacts> facts;
  for (std::size_t i = 0; i < found.nvidia.size(); ++i) {
    if (!selected[i]) continue;
    facts.push_back(nvml::device_facts(*found.driver, found.nvidia[i]));
    facts.back().device.index = static_cast<int32_t>(wanted.size());
    numa_from(options.paths.sysfs, facts.back());
    wanted.push_back(found.nvidia[i]);
  }
  if (wanted.empty()) return;
  sensors.all.push_back(nvml::make_sensor(std::move(found.driver), std::move(wanted), options.gpm));
  add_facts(sensors, std::move(facts));
}

void open_amd(Found& found, const std::vector<bool>& selected, Sensors& sensors) {
  const std::vector<bool> theirs(
      selected.begin() + static_cast<std::ptrdiff_t>(found.nvidia.size()), selected.end());
  if (std::count(theirs.begin(), theirs.end(), true) == 0) return;
  sensors.all.push_back(found.amd->open(theirs));
  add_facts(sensors, found.amd->facts(theirs));
}

void open_host(const SensorOptions& options, Sensors& sensors) {
  if (options.host) {
    add(sensors, host::open_proc(options.paths.proc));
    add(sensors, host::open_rapl(options.paths.sysfs));
    add(sensors, host::open_hwmon(options.paths.sysfs));
    add(sensors, host::open_network(options.paths.sysfs));
  }
  if (!options.node_power) return;
  add(sensors, host::open_node_power(options, sensors.gaps));
  std::vector<std::string> read_already;
  for (const auto& sensor : sensors.all)
    for (const Channel& channel : sensor->channels())
      if (channel.about.of_node) read_already.push_back(channel.about.signal);
  add(sensors, host::open_cray(options.paths.sysfs, read_already));
}

}  // namespace

SensorPaths sensor_paths_from_environment() {
  SensorPaths paths;
  replace_from("TRIPLEPOINT_NVML", paths.nvml);
  replace_from("TRIPLEPOINT_ROCM_SMI", paths.rocm_smi);
  replace_from("TRIPLEPOINT_SYSFS", paths.sysfs);
  replace_from("TRIPLEPOINT_PROC", paths.proc);
  replace_from("TRIPLEPOINT_DEV", paths.dev);
  replace_from("TRIPLEPOINT_IPMITOOL", paths.ipmitool);
  return paths;
}

Result<Sensors> open_sensors(const SensorOptions& options) {
  Sensors sensors;
  Found found;
  find_nvidia(options, found, sensors.gaps);
  find_amd(options, found, sensors.gaps);
  const auto selected = TPT_TRY(select_devices(found.devices, options.devices));
  open_nvidia(options, found, selected, sensors);
  open_amd(found, selected, sensors);
  open_host(options, sensors);
  host::node_facts(options.paths, sensors.node);
  return sensors;
}

}  // namespace triplepoint::telemetry
