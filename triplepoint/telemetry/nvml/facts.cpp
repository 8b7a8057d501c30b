// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/telemetry/nvml/sensor.h"
#include "triplepoint/telemetry/plausible.h"

namespace triplepoint::telemetry::nvml {
namespace {

constexpr uint32_t link_speed = 164;  // field, MB/s of one link; the scope is the link

struct ArchitectureName {
  unsigned number;
  const char* name;
};
constexpr std::array<ArchitectureName, 10> architecture_names = {{{2, "kepler"},
                                                                  {3, "maxwell"},
                                                                  {4, "pascal"},
                                                                  {5, "volta"},
                                                                  {6, "turing"},
                                                                  {7, "ampere"},
                                                                  {8, "ada"},
                                                                  {9, "hopper"},
                                                                  {10, "blackwell"},
                                                                  {13, "rubin"}}};

std::optional<unsigned> number(int (*function)(Handle, unsigned*), Handle handle) {
  unsigned raw = 0;
  if (function == nullptr || function(handle, &raw) != Code::success || is_sentinel(raw, 32))
    return std::nullopt;
  return raw;
}

std::optional<unsigned> number(int (*function)(Handle, unsigned, unsigned*), Handle handle,
                               unsigned which) {
  unsigned raw = 0;
  if (function == nullptr || function(handle, which, &raw) != Code::success || is_sentinel(raw, 32))
    return std::nullopt;
  return raw;
}

std::optional<int32_t> small_number(int (*function)(Handle, unsigned*), Handle handle) {
  const auto raw = number(function, handle);
  return raw ? std::optional(static_cast<int32_t>(*raw)) : std::nullopt;
}

std::optional<bool> on(int (*function)(Handle, unsigned*, unsigned*), Handle handle) {
  unsigned current = 0, pending = 0;
  if (function == nullptr || function(handle, &current, &pending) != Code::success)
    return std::nullopt;
  return current != 0;
}

std::optional<Watts> watts(std::optional<unsigned> milliwatts) {
  return milliwatts ? std::optional(*milliwatts * unit::mW) : std::nullopt;
}
std::optional<Hertz> megahertz(std::optional<unsigned> raw) {
  return raw ? std::optional(*raw * unit::MHz) : std::nullopt;
}
std::optional<Celsius> celsius(std::optional<unsigned> raw) {
  return raw && *raw > 0 && *raw < 250 ? std::optional(Celsius(*raw)) : std::nullopt;
}

void power_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  facts.power_limit = watts(number(api.power_limit, handle));
  facts.power_limit_default = watts(number(api.power_limit_default, handle));
  unsigned low = 0, high = 0;
  if (api.power_limit_range == nullptr ||
      api.power_limit_range(handle, &low, &high) != Code::success)
    return;
  facts.power_limit_min = low * unit::mW;
  facts.power_limit_max = high * unit::mW;
}

void limit_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  facts.shutdown = celsius(number(api.threshold, handle, Threshold::shutdown));
  facts.slowdown = celsius(number(api.threshold, handle, Threshold::slowdown));
  facts.memory_max = celsius(number(api.threshold, handle, Threshold::memory_max));
  facts.target = celsius(number(api.threshold, handle, Threshold::gpu_max));
  facts.max_sm_clock = megahertz(number(api.max_clock, handle, Clock::sm));
  facts.max_memory_clock = megahertz(number(api.max_clock, handle, Clock::memory));
  Memory memory;
  if (api.memory != nullptr && api.memory(handle, &memory) == Code::success)
    facts.memory = static_cast<double>(memory.total) * unit::B;
}

/// What is at the other end of a link. Remote device types: 0 GPU, 2 switch.
LinkFacts link_at(const Api& api, Handle handle, unsigned link) {
  LinkFacts facts{.kind = LinkKind::nvlink, .remote_pci = "", .count = 1, .bandwidth = {}};
  PciInfo remote;
  constexpr unsigned is_switch = 2;
  if (number(api.link_remote_type, handle, link) == is_switch)
    facts.kind = LinkKind::nvswitch;
  else if (api.link_remote_pci != nullptr &&
           api.link_remote_pci(handle, link, &remote) == Code::success) {
    remote.bus_id[sizeof remote.bus_id - 1] = '\0';
    facts.remote_pci = plain_pci(remote.bus_id);
  }
  FieldValue speed{.field = link_speed, .scope = link};
  if (api.field_values != nullptr && api.field_values(handle, 1, &speed) == Code::success &&
      speed.code == Code::success && speed.value.u32 > 0 && !is_sentinel(speed.value.u32, 32))
    facts.bandwidth = speed.value.u32 * (unit::MB / unit::s);
  return facts;
}

void link_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  for (unsigned link = 0; link < most_links; ++link) {
    if (number(api.link_state, handle, link) != 1U) continue;
    const LinkFacts one = link_at(api, handle, link);
    const auto same = std::find_if(facts.links.begin(), facts.links.end(), [&](const auto& other) {
      return other.kind == one.kind && other.remote_pci == one.remote_pci;
    });
    if (same == facts.links.end()) {
      facts.links.push_back(one);
      continue;
    }
    ++same->count;
    if (same->bandwidth && one.bandwidth) same->bandwidth = *same->bandwidth + *one.bandwidth;
  }
}

std::string architecture_name(const Api& api, Handle handle) {
  const auto raw = number(api.architecture, handle);
  for (const auto& [number, name] : architecture_names)
    if (raw == number) return name;
  return raw ? fmt::format("nvidia architecture {}", *raw) : "";
}

}  // namespace

DeviceFacts device_facts(const Driver& driver, const Listed& listed) {
  const Api& api = driver.api();
  const Handle handle = listed.handle;
  DeviceFacts facts;
  facts.device = listed.device;
  facts.vendor = "nvidia";
  facts.architecture = architecture_name(api, handle);
  std::array<char, 64> serial{};
  if (api.serial != nullptr &&
      api.serial(handle, serial.data(), serial.size() - 1) == Code::success)
    facts.board = serial.data();
  power_facts(api, handle, facts);
  limit_facts(api, handle, facts);
  facts.pcie_generation = small_number(api.pcie_generation, handle);
  facts.pcie_width = small_number(api.pcie_width, handle);
  facts.pcie_generation_max = small_number(api.pcie_generation_max, handle);
  facts.pcie_width_max = small_number(api.pcie_width_max, handle);
  link_facts(api, handle, facts);
  facts.mig = on(api.mig_mode, handle);
  facts.ecc = on(api.ecc, handle);
  if (const auto persistence = number(api.persistence, handle))
    facts.persistence = *persistence != 0;
  return facts;
}

void driver_facts(const Driver& driver, NodeFacts& node) {
  std::array<char, 96> text{};
  const Api& api = driver.api();
  if (api.driver_version != nullptr &&
      api.driver_version(text.data(), text.size() - 1) == Code::success)
    node.nvidia_driver = text.data();
  int cuda = 0;
  if (api.cuda_version != nullptr && api.cuda_version(&cuda) == Code::success)
    node.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

}  // namespace triplepoint::telemetry::nvml
