// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sensor.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace triplepoint::telemetry {

int64_t monotonic_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

namespace {

void replace_from(const char* variable, auto& text) {
  if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0')
    text = value;
}

}  // namespace

SensorPaths sensor_paths_from_environment() {
  SensorPaths paths;
  replace_from("TRIPLEPOINT_NVML", paths.nvml);
  replace_from("TRIPLEPOINT_SYSFS", paths.sysfs);
  replace_from("TRIPLEPOINT_PROC", paths.proc);
  replace_from("TRIPLEPOINT_DEV", paths.dev);
  replace_from("TRIPLEPOINT_IPMITOOL", paths.ipmitool);
  return paths;
}

void GapList::add(Gap gap, int32_t gpu) {
  const auto same = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.gap.what == gap.what && entry.gap.why == gap.why;
  });
  if (same != entries_.end())
    same->gpus.push_back(gpu);
  else
    entries_.push_back({std::move(gap), {gpu}});
}

void GapList::add(const GapList& other) {
  for (const Entry& entry : other.entries_)
    for (const int32_t gpu : entry.gpus)
      add(entry.gap, gpu);
}

std::vector<Gap> GapList::gaps() const {
  std::vector<Gap> said;
  for (const Entry& entry : entries_) {
    said.push_back(entry.gap);
    said.back().what +=
        fmt::format(" of GPU{} {}", entry.gpus.size() > 1 ? "s" : "", ranges_of(entry.gpus));
  }
  return said;
}

std::string ranges_of(const std::vector<int32_t>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;)
      ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[begin]);
    if (end > begin + 1) text += fmt::format("-{}", numbers[end - 1]);
  }
  return text;
}

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

}  // namespace triplepoint::telemetry
