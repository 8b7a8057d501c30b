// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/open_file.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::amd {

/// What amdgpu's sysfs file `gpu_metrics` says, one consistent snapshot of the GPU's firmware.
/// Absent: this version has no such field, or it says "not available" (all bits set).
///
/// Versions 1.1 to 1.8, told apart by the head (u16 bytes, u8 format, u8 content) and checked
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

/// A GPU as amdgpu shows it in sysfs.
struct SysfsGpu {
  run::Device device;
  Path folder, hwmon;  // .../card1/device, .../hwmon/hwmon4; hwmon may be empty
  uint32_t device_id = 0;
  bool shares_package = false;  // two dies of an MI250: one says the power of both
};

/// amdgpu's GPUs, by PCI address; the second die of a package counts its power on the first.
std::vector<SysfsGpu> sysfs_gpus(const Path& sysfs);

/// What gpu_metrics says now; an error if there is none or it is of an unknown version.
Result<GpuMetrics> read_metrics(const OpenFile& file);

/// Power that the GPU says now, of whatever file.
std::optional<double> power_now(const SysfsGpu&);

/// The file hwmon has under a label ("junction"): "temp2_input"; empty: none.
Path labelled_input(const Path& hwmon, std::string_view kind, std::string_view label);

/// Time throttled, of a residency counter and what it counts in.
class Residency {
 public:
  /// ns since the first call.
  double update(uint64_t residency, uint64_t accumulation, int64_t now_ns);

 private:
  std::optional<uint64_t> residency_, accumulation_;
  int64_t last_ns_ = 0;
  double total_ns_ = 0;
};

/// Reads one GPU: its gpu_metrics in one go, and files for what that lacks.
class SysfsReader {
 public:
  /// `counts_energy`: its energy counter agrees with its power.
  SysfsReader(const SysfsGpu& gpu, bool counts_energy, std::vector<Channel>& channels);

  void read(bool slow, const std::vector<Channel>& channels, std::vector<Reading>& readings);
  /// A sentence when it begins to fail, and when it is back.
  std::vector<std::string> take_troubles() { return std::exchange(troubles_, {}); }

 private:
  struct Gauge {
    int32_t channel = 0;
    std::optional<double> GpuMetrics::*value = nullptr;
  };
  struct Count {
    int32_t channel = 0;
    std::optional<uint64_t> GpuMetrics::*value = nullptr;
    Counter counter;
  };
  struct Share {
    int32_t channel = 0;
    std::vector<std::optional<uint64_t> GpuMetrics::*> values;  // the longest of them counts
    std::vector<Residency> residencies;
  };
  struct Number {
    int32_t channel = 0;
    OpenFile file;
    double unit = 1;
    Range range;
  };

  void open_metrics(const GpuMetrics& metrics, bool counts_energy);
  void open_files();
  void open_number(const char* signal, const Path& file, double unit, Polling polling,
                   run::ReadingKind kind = run::ReadingKind::instant);
  int32_t add_channel(std::string signal, run::ReadingKind kind, std::string sensor,
                      Polling polling);
  bool has(std::string_view signal) const;
  int64_t stamp_of(const GpuMetrics& metrics, int64_t now);
  void take(const GpuMetrics& metrics, int64_t stamp, std::vector<Reading>& readings);
  void take_shares(const GpuMetrics& metrics, int64_t stamp, std::vector<Reading>& readings);

  const SysfsGpu gpu_;
  std::vector<Channel>* channels_;  // while opening
  std::size_t first_channel_ = 0;
  OpenFile metrics_;
  std::vector<Gauge> gauges_;
  std::vector<Count> counts_;
  std::vector<Share> shares_;
  std::vector<Number> numbers_;
  std::optional<int32_t> reasons_;
  uint64_t always_set_ = 0;  // throttle bits this board shows even when idle
  std::optional<uint64_t> firmware_time_;
  int64_t stamp_ns_ = 0;
  int failures_ = 0;
  std::vector<std::string> troubles_;
};

}  // namespace triplepoint::telemetry::amd
