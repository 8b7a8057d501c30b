// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/metric_names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/telemetry/live/clock_reasons.h"

namespace triplepoint::telemetry {
namespace {

struct Named {
  std::string_view signal, name, help;  // name without prefix, unit's suffix and _total
  std::string_view label = {}, label_value = {};
};

/// Of a GPU and of the node: the words that differ from the signal's own.
constexpr std::array named = {
    Named{"power_instant_w", "power_instant", "Power at the moment, as the sensor shows it"},
    Named{"power_average_w", "power_average", "Power, smoothed over about a second"},
    Named{"memory_power_w", "memory_power", "Power of the memory"},
    Named{"energy_j", "energy", "Energy since the exporter began, by the hardware's counter"},
    Named{"die_c", "temperature", "Temperature of the GPU, as its driver says it"},
    Named{"junction_c", "junction_temperature", "Temperature of the hottest spot"},
    Named{"edge_c", "edge_temperature", "Temperature at the edge of the die"},
    Named{"memory_c", "memory_temperature", "Temperature of the memory"},
    Named{"sm_clock_mhz", "sm_clock", "Clock of the multiprocessors"},
    Named{"memory_clock_mhz", "memory_clock", "Clock of the memory"},
    Named{"throttle_reasons", "clock_event_reasons",
          "Bits that say why the clock is where it is (nvmlClocksEventReason)"},
    Named{"utilization", "utilization", "Share of time in which a kernel was running"},
    Named{"memory_utilization", "memory_utilization", "Share of time in which memory was busy"},
    Named{"memory_used_b", "memory_used", "Memory in use"},
    Named{"power_limit_w", "power_limit", "Power limit in force"},
    Named{"fan_share", "fan", "Speed of the fan over its highest"},
    Named{"scale_up_tx_bytes", "scale_up_transmit", "Bytes out over NVLink or xGMI"},
    Named{"scale_up_rx_bytes", "scale_up_receive", "Bytes in over NVLink or xGMI"},
    Named{"pcie_tx_bytes", "pcie_transmit", "Bytes out over PCIe"},
    Named{"pcie_rx_bytes", "pcie_receive", "Bytes in over PCIe"},
    Named{"node_power_w", "power", "Power of the whole node"},
    Named{"node_energy_j", "energy", "Energy of the whole node since the exporter began"},
    Named{"inlet_c", "inlet_temperature", "Temperature of the air that goes in"},
    Named{"cpu_energy_j", "cpu_energy", "Energy of the processors' packages"},
    Named{"dram_energy_j", "dram_energy", "Energy of the memory"},
    Named{"cpu_c", "cpu_temperature", "Temperature of the hottest processor"},
    Named{"cpu_user_s", "cpu", "Time of all hardware threads, by mode", "mode", "user"},
    Named{"cpu_system_s", "cpu", "Time of all hardware threads, by mode", "mode", "system"},
    Named{"cpu_idle_s", "cpu", "Time of all hardware threads, by mode", "mode", "idle"},
    Named{"cpu_wait_s", "cpu", "Time of all hardware threads, by mode", "mode", "iowait"},
    Named{"scale_out_tx_bytes", "scale_out_transmit", "Bytes out over InfiniBand or RoCE"},
    Named{"scale_out_rx_bytes", "scale_out_receive", "Bytes in over InfiniBand or RoCE"},
    Named{"ethernet_tx_bytes", "ethernet_transmit", "Bytes out over Ethernet"},
    Named{"ethernet_rx_bytes", "ethernet_receive", "Bytes in over Ethernet"},
    Named{"sampler_cpu_s", "cpu", "Processor time that measuring has taken"},
    Named{"sampler_late_s", "late", "How late the last tick began"},
    Named{"sampler_lost_ticks", "lost_ticks", "Ticks that were not kept"},
    Named{"sampler_call_s", "call", "Time that the sensors' calls of the last tick took"},
};

struct Unit {
  std::string_view suffix, word;
  double scale;
};
constexpr std::array units = {
    Unit{"_ns", "_seconds", 1e-9}, Unit{"_bytes", "_bytes", 1}, Unit{"_mhz", "_hertz", 1e6},
    Unit{"_w", "_watts", 1},       Unit{"_c", "_celsius", 1},   Unit{"_j", "_joules", 1},
    Unit{"_b", "_bytes", 1},       Unit{"_s", "_seconds", 1},   Unit{"_v", "_volts", 1},
    Unit{"_rpm", "_rpm", 1},
};
constexpr std::array shares = {std::string_view("utilization"),
                               std::string_view("memory_utilization"),
                               std::string_view("fan_share")};

/// Letters, digits and _ only.
std::string clean(std::string_view text) {
  std::string name(text);
  for (char& c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  return name;
}

/// "triplepoint_gpu_", "triplepoint_node_", "triplepoint_sampler_".
std::string prefix_of(const run::SeriesSource& about) {
  if (!about.of_node) return "triplepoint_gpu_";
  return about.signal.starts_with("sampler_") ? "triplepoint_sampler_" : "triplepoint_node_";
}

/// What its name says of its unit; whatever ends in none of them has none.
Unit unit_of(std::string_view signal) {
  for (const Unit& unit : units)
    if (signal.ends_with(unit.suffix)) return unit;
  const bool share = signal.ends_with("_share") || signal.ends_with("_active") ||
                     signal.ends_with("_occupancy") ||
                     std::find(shares.begin(), shares.end(), signal) != shares.end();
  return {"", share ? "_ratio" : "", 1};
}

struct Dcgm {
  std::string_view signal, name, help;
  double scale;
};
constexpr std::array dcgm = {
    Dcgm{"power_average_w", "DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", 1},
    Dcgm{"power_instant_w", "DCGM_FI_DEV_POWER_USAGE_INSTANT", "Current power draw (in W).", 1},
    Dcgm{"energy_j", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
         "Total energy consumption since the exporter began (in mJ).", 1e3},
    Dcgm{"die_c", "DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", 1},
    Dcgm{"memory_c", "DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", 1},
    Dcgm{"sm_clock_mhz", "DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", 1},
    Dcgm{"memory_clock_mhz", "DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", 1},
    Dcgm{"utilization", "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", 100},
    Dcgm{"memory_utilization", "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", 100},
    Dcgm{"memory_used_b", "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
         1.0 / 1048576},
    Dcgm{"power_limit_w", "DCGM_FI_DEV_POWER_MGMT_LIMIT", "Current power limit (in W).", 1},
    Dcgm{"throttle_reasons", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
         "Current clock throttle reasons (bitmask).", 1},
    Dcgm{"throttle_ns_sw_power_cap", "DCGM_FI_DEV_POWER_VIOLATION",
         "Throttling duration due to power constraints (in ns).", 1},
    Dcgm{"throttle_ns_sync_boost", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
         "Throttling duration due to sync-boost constraints (in ns).", 1},
};

/// Instant and smoothed values are told apart; what a counter is its name says.
std::string with_kind(std::string help, const run::SeriesSource& about) {
  if (about.kind == run::ReadingKind::average) help += " (averaged by the sensor)";
  return help + ".";
}

}  // namespace

MetricName metric_of(const run::SeriesSource& about) {
  MetricName metric;
  metric.counter = about.kind == run::ReadingKind::counter;
  const std::string reason = reason_of_residency(about.signal);
  if (!reason.empty())
    return {.name = prefix_of(about) + "throttle_seconds_total",
            .help = "Time with the clock held back, by reason.",
            .counter = true,
            .scale = 1e-9,
            .label = "reason",
            .label_value = reason};
  const Unit unit = unit_of(about.signal);
  std::string_view bare = about.signal;
  if (about.of_node && bare.starts_with("sampler_")) bare.remove_prefix(8);
  std::string word = clean(bare.substr(0, bare.size() - unit.suffix.size()));
  metric.help = fmt::format("Signal {} of {}", about.signal, about.sensor);
  for (const Named& one : named) {
    if (one.signal != about.signal) continue;
    word = one.name;
    metric.help = one.help;
    metric.label = one.label;
    metric.label_value = one.label_value;
  }
  metric.name = prefix_of(about) + word + std::string(unit.word) + (metric.counter ? "_total" : "");
  metric.help = with_kind(std::move(metric.help), about);
  metric.scale = unit.scale;
  return metric;
}

std::optional<MetricName> dcgm_metric_of(const run::SeriesSource& about) {
  if (about.of_node) return std::nullopt;
  const auto* const found = std::find_if(dcgm.begin(), dcgm.end(),
                                         [&](const Dcgm& d) { return d.signal == about.signal; });
  if (found == dcgm.end()) return std::nullopt;
  return MetricName{.name = std::string(found->name),
                    .help = std::string(found->help),
                    .counter = about.kind == run::ReadingKind::counter,
                    .scale = found->scale};
}

}  // namespace triplepoint::telemetry
