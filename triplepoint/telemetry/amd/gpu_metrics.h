// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "triplepoint/base/result.h"

namespace triplepoint::telemetry::amd {

/// What amdgpu's sysfs file `gpu_metrics` says, one consistent snapshot of the GPU's firmware.
/// Absent: this version has no such field, or it says "not available" (all bits set).
///
/// Versions 1.1 to 1.7, told apart by the head (u16 bytes, u8 format, u8 content) and checked
/// against the size each has. Source: Linux, drivers/gpu/drm/amd/include/kgd_pp_interface.h, struct
/// gpu_metrics_v1_*.
struct GpuMetrics {
  int content = 0;  // 3 in version 1.3
  std::optional<double> edge_c, junction_c, memory_c;
  std::optional<double> power_average_w, power_instant_w;  // of the package
  std::optional<double> utilization, memory_utilization;   // shares
  std::optional<double> sm_clock_mhz, memory_clock_mhz;    // mean of the dies
  std::optional<uint64_t> energy;                          // counts of 2^-16 J
  std::optional<uint64_t> firmware_time;                   // counts of 10 ns
  std::optional<uint64_t> xgmi_read_kb, xgmi_written_kb;   // all links
  std::optional<uint64_t> throttle_bits;                   // as the kernel numbers them
  // Residency counters and what they count in: a share is the ratio of two differences.
  std::optional<uint64_t> accumulation, prochot, power_limit, socket_hot, regulator_hot, memory_hot;
  std::optional<int32_t> pcie_width;
  friend bool operator==(const GpuMetrics&, const GpuMetrics&) = default;
};

/// The energy counter's unit: 15.259 uJ.
inline constexpr double energy_unit_j = 1.0 / 65536;
/// Xgmi counters count 1024 bytes (the driver's "KB").
inline constexpr double xgmi_unit_b = 1024;

/// Bytes that are not a version known here are an error which says what they are.
Result<GpuMetrics> parse_gpu_metrics(std::string_view bytes);

/// Clock-event reasons in NVML's bits, which all series use, of the kernel's throttler bits: power
/// limits are 4, current limits 8, PROCHOT 32 (as AMD SMI's manual pairs it), temperatures 64; bits
/// without a counterpart are kept from 2^16 on.
uint64_t reasons_of(uint64_t throttle_bits);

}  // namespace triplepoint::telemetry::amd
