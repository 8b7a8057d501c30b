// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/energy/throttle_residency.h"

#include <algorithm>
#include <array>

namespace triplepoint::telemetry {

namespace {

/// Bits as in nvmlClocksEventReason*, and the residency counter of the same cause. Source: nvml.h.
struct Reason {
  uint32_t bit;
  const char* name;
  const char* counter;
};
constexpr std::array<Reason, 6> reasons = {
    {{4, "software_power_cap", "throttle_ns_sw_power_cap"},
     {8, "hardware_slowdown", "throttle_ns_hw_slowdown"},
     {16, "sync_boost", "throttle_ns_sync_boost"},
     {32, "software_thermal", "throttle_ns_sw_thermal_slowdown"},
     {64, "hardware_thermal", "throttle_ns_hw_thermal_slowdown"},
     {128, "hardware_power_brake", "throttle_ns_hw_power_brake"}}};

/// Growth of a counter over the part of [begin, end] that it covers.
std::optional<double> growth(const run::Series* counter, Instant begin, Instant end) {
  if (counter == nullptr || counter->times.size() < 2) return std::nullopt;
  const Instant from = std::max(begin, counter->times.front());
  const Instant until = std::min(end, counter->times.back());
  if (until <= from) return std::nullopt;
  return run::counter_difference(*counter, from, until);
}

}  // namespace

bool ThrottleResidency::was_missed_by_polling() const {
  return counted && polled && *counted > Seconds() && !(*polled > Seconds());
}

std::map<std::string, ThrottleResidency> throttle_residency(const run::Run& run, int32_t device,
                                                            Instant begin, Instant end) {
  std::map<std::string, ThrottleResidency> all;
  const run::Series* bits = run::find_series(run, "throttle_reasons", device);
  for (const Reason& reason : reasons) {
    ThrottleResidency residency;
    if (const auto ns = growth(run::find_series(run, reason.counter, device), begin, end))
      residency.counted = *ns * unit::ns;
    if (bits != nullptr)
      if (const auto share = run::share_of_time(*bits, reason.bit, begin, end))
        residency.polled = *share * (end - begin);
    if (residency.counted || residency.polled) all[reason.name] = residency;
  }
  return all;
}

std::map<std::string, double> throttle_shares(
    const std::map<std::string, ThrottleResidency>& residencies, Seconds duration) {
  std::map<std::string, double> shares;
  if (!(duration > Seconds())) return shares;
  for (const auto& [name, residency] : residencies) {
    const Seconds held =
        residency.counted ? *residency.counted : residency.polled.value_or(Seconds());
    if (held > Seconds()) shares[name] = std::min(1.0, held / duration);
  }
  return shares;
}

}  // namespace triplepoint::telemetry
