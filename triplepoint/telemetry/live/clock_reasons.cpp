// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/clock_reasons.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::telemetry {
namespace {

struct Named {
  uint32_t bit;
  std::string_view name;
  std::string_view residency;  // as in throttle_ns_...
  ReasonClass kind;
};

constexpr std::array named = {
    Named{0x1, "gpu_idle", "", ReasonClass::benign},
    Named{0x2, "application_clocks", "", ReasonClass::benign},
    Named{0x4, "software_power_cap", "sw_power_cap", ReasonClass::power},
    Named{0x8, "hardware_slowdown", "hw_slowdown", ReasonClass::hardware},
    Named{0x10, "sync_boost", "sync_boost", ReasonClass::hardware},
    Named{0x20, "software_thermal", "sw_thermal_slowdown", ReasonClass::thermal},
    Named{0x40, "hardware_thermal", "hw_thermal_slowdown", ReasonClass::thermal},
    Named{0x80, "hardware_power_brake", "hw_power_brake", ReasonClass::power},
    Named{0x100, "display_clocks", "", ReasonClass::benign},
};

}  // namespace

std::vector<ClockReason> clock_reasons(uint64_t bits) {
  std::vector<ClockReason> reasons;
  for (const Named& one : named) {
    if ((bits & one.bit) != 0) reasons.push_back({one.bit, std::string(one.name), one.kind});
    bits &= ~uint64_t{one.bit};
  }
  if (bits != 0)
    reasons.push_back(
        {static_cast<uint32_t>(bits), fmt::format("bits 0x{:x}", bits), ReasonClass::hardware});
  return reasons;
}

std::string reasons_text(uint64_t bits) {
  std::vector<std::string> real, benign;
  for (const ClockReason& reason : clock_reasons(bits))
    (reason.kind == ReasonClass::benign ? benign : real).push_back(reason.name);
  return fmt::format("{}", fmt::join(real.empty() ? benign : real, ", "));
}

std::string reason_of_residency(const std::string& signal) {
  constexpr std::string_view prefix = "throttle_ns_";
  if (!signal.starts_with(prefix)) return "";
  const std::string_view what = std::string_view(signal).substr(prefix.size());
  const auto* const found =
      std::find_if(named.begin(), named.end(), [&](const Named& n) { return n.residency == what; });
  return std::string(found == named.end() ? what : found->name);
}

}  // namespace triplepoint::telemetry
