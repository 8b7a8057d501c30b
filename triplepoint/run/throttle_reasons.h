// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/run/run.h"

namespace triplepoint::run {

struct ThrottleReason {
  uint32_t bit = 0;
  std::string_view name;
  std::string_view counter;  // signal: nanoseconds for which it held the clock back
  enum class Of { power, heat, other } of = Of::other;
  bool by_hardware = false;
};

/// Reasons for which a clock is below the requested one, by the bits of a throttle_reasons series.
/// Idle, application and display clocks are wishes, not throttling. Source: nvml.h,
/// nvmlClocksEventReason*.
inline constexpr std::array<ThrottleReason, 6> throttle_reasons = {
    {{4, "software_power_cap", "throttle_ns_sw_power_cap", ThrottleReason::Of::power},
     {8, "hardware_slowdown", "throttle_ns_hw_slowdown", ThrottleReason::Of::other, true},
     {16, "sync_boost", "throttle_ns_sync_boost"},
     {32, "software_thermal", "throttle_ns_sw_thermal_slowdown", ThrottleReason::Of::heat},
     {64, "hardware_thermal", "throttle_ns_hw_thermal_slowdown", ThrottleReason::Of::heat, true},
     {128, "hardware_power_brake", "throttle_ns_hw_power_brake", ThrottleReason::Of::power, true}}};

/// Whether the reason of this name is a limit of power.
inline bool is_power_reason(std::string_view name) {
  return std::ranges::any_of(throttle_reasons, [&](const ThrottleReason& reason) {
    return reason.of == ThrottleReason::Of::power && reason.name == name;
  });
}

/// The bits of all of them.
inline constexpr uint32_t any_throttle_reason = [] {
  uint32_t bits = 0;
  for (const ThrottleReason& reason : throttle_reasons)
    bits |= reason.bit;
  return bits;
}();

/// The bit of any hardware slowdown is on with those that say which one: of its share what none of
/// them explains.
inline void leave_unexplained_slowdown(NamedValues& shares) {
  if (!shares.contains("hardware_slowdown")) return;
  double& slowdown = shares["hardware_slowdown"];
  for (const char* const reason : {"hardware_thermal", "hardware_power_brake"})
    if (shares.contains(reason)) slowdown -= shares.at(reason);
  constexpr double noise = 0.01;
  if (slowdown < noise) shares.erase("hardware_slowdown");
}

/// Share of time with any reason, where reasons may hold at once: what was polled, at least the
/// longest reason's share and at most all of them one after the other.
inline double any_reason_share(std::optional<double> polled, double longest, double sum) {
  return std::min(1.0, std::clamp(polled.value_or(0), longest, std::max(longest, sum)));
}

/// Share of [begin, end] for which a reason held the device's clock back: from its residency
/// counter where there is one, which sees what falls between samples; else from the polled bits.
inline std::optional<double> throttled_share(const Run& run, int32_t device,
                                             const ThrottleReason& reason, Instant begin,
                                             Instant end) {
  if (end <= begin) return std::nullopt;
  if (const auto* counter = find_series(run, reason.counter, device))
    if (const auto held_ns = counter_difference(*counter, begin, end))
      return *held_ns / ((end - begin) / unit::ns);
  const Series* bits = find_series(run, "throttle_reasons", device);
  if (bits == nullptr) return std::nullopt;
  return share_of_time(*bits, reason.bit, begin, end);
}

}  // namespace triplepoint::run
