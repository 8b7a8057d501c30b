// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/device_number.h"

#include <algorithm>

namespace triplepoint::run {

std::string device_number(const Run& run, std::size_t device) {
  if (run.manifest.origin == Origin::simulated || device >= run.devices.size())
    return std::to_string(device);
  const Device& one = run.devices[device];
  const bool has_nodes =
      std::ranges::any_of(run.devices, [&](const Device& other) { return other.node != one.node; });
  if (!has_nodes) return std::to_string(one.local);
  const std::vector<std::string>& hosts = run.manifest.hosts;
  const auto node = static_cast<std::size_t>(one.node);
  const bool is_named = node < hosts.size() && !hosts[node].empty();
  return fmt::format("{} of node {}{}", one.local, one.node,
                     is_named ? fmt::format(" ({})", hosts[node]) : "");
}

std::vector<std::string> device_numbers(const Run& run) {
  std::vector<std::string> numbers;
  if (run.manifest.origin == Origin::simulated) return numbers;
  for (std::size_t device = 0; device < run.devices.size(); ++device)
    numbers.push_back(device_number(run, device));
  return numbers;
}

std::string device_number(const std::vector<std::string>& numbers, std::size_t device) {
  return device < numbers.size() ? numbers[device] : std::to_string(device);
}

}  // namespace triplepoint::run
