// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace triplepoint::metrics {

struct ThrottleReason {
  uint32_t bit = 0;
  std::string_view name;
};

/// Reasons for which a clock is below the requested one, by the bits of a throttle_reasons series.
/// Idle, application and display clocks are wishes, not throttling. Source: nvml.h,
/// nvmlClocksEventReason*.
inline constexpr std::array<ThrottleReason, 6> throttle_reasons = {{{4, "software_power_cap"},
                                                                    {8, "hardware_slowdown"},
                                                                    {16, "sync_boost"},
                                                                    {32, "software_thermal"},
                                                                    {64, "hardware_thermal"},
                                                                    {128, "hardware_power_brake"}}};

}  // namespace triplepoint::metrics
