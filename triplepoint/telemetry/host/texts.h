// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::telemetry::host {

/// CPU time since boot, all cores, in ticks of the kernel (USER_HZ).
struct CpuTicks {
  uint64_t user = 0, system = 0, idle = 0, wait = 0;
  friend bool operator==(const CpuTicks&, const CpuTicks&) = default;
};

/// The first line of /proc/stat. `user` holds niced time, `system` that of interrupts; time stolen
/// by a hypervisor belongs to no process. Source: proc(5).
std::optional<CpuTicks> parse_proc_stat(std::string_view text);

/// Bytes in use, as /proc/meminfo has them: MemTotal - MemAvailable.
struct MemoryUse {
  uint64_t total_b = 0, used_b = 0;
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};
std::optional<MemoryUse> parse_meminfo(std::string_view text);

/// "Instantaneous power reading: 220 Watts", as `ipmitool dcmi power reading` prints it; nothing if
/// the BMC says that power measurement is not active, or the line is missing.
std::optional<double> parse_dcmi_power(std::string_view text);

/// One file of Cray's pm_counters: "325 W 1700000000123456 us".
struct PmCounter {
  double value = 0;
  std::optional<int64_t> unix_us;
};
std::optional<PmCounter> parse_pm_counter(std::string_view text);

/// What /proc/cpuinfo says of the machine.
struct CpuInfo {
  std::string model;
  int32_t sockets = 0, cores = 0, threads = 0;
};
CpuInfo parse_cpuinfo(std::string_view text);

}  // namespace triplepoint::telemetry::host
