// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/telemetry/amd/gpu_metrics.h"
#include "triplepoint/telemetry/counter.h"
#include "triplepoint/telemetry/kept_file.h"
#include "triplepoint/telemetry/plausible.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::amd {

/// A GPU as amdgpu shows it in sysfs.
struct SysfsGpu {
  run::Device device;
  Path folder, hwmon;  // .../card1/device, .../hwmon/hwmon4; hwmon may be empty
  uint32_t device_id = 0;
  bool shares_package = false;      // two dies of an MI250: one says the power of both
  std::optional<int32_t> power_on;  // `local` of the die that says it, if this one does not
};

/// amdgpu's GPUs, by PCI address; dies that share a package are told apart.
std::vector<SysfsGpu> sysfs_gpus(const Path& sysfs);

/// What gpu_metrics says now; an error if there is none or it is of an unknown version.
Result<GpuMetrics> read_metrics(const KeptFile& file);

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
  void take_troubles(std::vector<std::string>& sentences);

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
    KeptFile file;
    double unit = 1;
    Range range;
  };

  void open_metrics(const GpuMetrics& metrics, bool counts_energy);
  void open_files();
  void open_number(const char* signal, const Path& file, double unit, Pace pace,
                   run::ReadingKind kind = run::ReadingKind::instant);
  int32_t add_channel(std::string signal, run::ReadingKind kind, std::string sensor, Pace pace);
  bool has(std::string_view signal) const;
  int64_t stamp_of(const GpuMetrics& metrics, int64_t now);
  void take(const GpuMetrics& metrics, int64_t stamp, std::vector<Reading>& readings);
  void take_shares(const GpuMetrics& metrics, int64_t stamp, std::vector<Reading>& readings);

  const SysfsGpu gpu_;
  std::vector<Channel>* channels_;  // while opening
  std::size_t first_channel_ = 0;
  KeptFile metrics_;
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
