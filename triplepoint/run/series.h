// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/instant.h"

namespace triplepoint::run {

/// One signal of one device over time; each value has its own stamp. A reading that was not there
/// has no entry: absent is not zero. Unit is written in the signal's name, as in power_w, die_c,
/// sm_clock_mhz.
///
/// Known signals. Of a device: power_w (true mean since the previous stamp), power_instant_w,
/// power_average_w, memory_power_w, module_power_w (sensor views), energy_j (counter), die_c,
/// memory_c, junction_c, sm_clock_mhz, memory_clock_mhz, throttle_reasons (bit set),
/// throttled_share (of the time since the previous stamp), throttle_ns_<reason> (residency
/// counters: sw_power_cap, hw_slowdown, sync_boost, sw_thermal_slowdown, hw_thermal_slowdown,
/// hw_power_brake), utilization, memory_utilization (shares), memory_used_b, power_limit_w,
/// fan_share, scale_up_tx_bytes, scale_up_rx_bytes, pcie_tx_bytes, pcie_rx_bytes (counters), and
/// shares that performance counters tell: sm_active, sm_occupancy, tensor_active, memory_active,
/// graphics_active, fp64_active, fp32_active, fp16_active.
/// Of a node: node_power_w, node_energy_j, platform_energy_j, cpu_power_w, inlet_c, cpu_energy_j,
/// dram_energy_j, cpu_c, cpu_user_s, cpu_system_s, cpu_idle_s, cpu_wait_s (counters, all cores),
/// memory_used_b, scale_out_tx_bytes, scale_out_rx_bytes, ethernet_tx_bytes, ethernet_rx_bytes
/// (counters), and of the recorder itself: sampler_cpu_s, sampler_late_s, sampler_lost_ticks,
/// sampler_call_s.
struct Series {
  std::string signal;
  int32_t device = 0;  // global device index; nodes: node index
  bool of_node = false;
  std::vector<Instant> times;  // ascending
  std::vector<double> values;  // same length
  friend bool operator==(const Series&, const Series&) = default;
};

struct SeriesStatistics {
  double time_weighted_mean = 0;  // left-hold, as the artifact computes it
  double minimum = 0, maximum = 0;
  int64_t count = 0;
};
/// Zeros and a count of 0 for an empty series; of one value, its mean is that value.
SeriesStatistics statistics(const Series&);
/// The same over [begin, end] only: a value holds from its stamp to the next one, the last one to
/// `end`. What was before the first stamp is unknown and not counted.
SeriesStatistics statistics(const Series&, Instant begin, Instant end);

/// Last value minus first value of a counter inside [begin, end], both taken by interpolation
/// between the neighbouring stamps; nothing where the series does not reach over the interval.
std::optional<double> counter_difference(const Series&, Instant begin, Instant end);

/// Share of [begin, end] during which `bits` has any bit of `mask` set (left-hold); nothing without
/// a value.
std::optional<double> share_of_time(const Series& bits, uint32_t mask, Instant begin, Instant end);

}  // namespace triplepoint::run
