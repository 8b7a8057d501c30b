// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/amd/sysfs_gpu.h"
#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/exporter/exposition.h"
#include "triplepoint/telemetry/gpu_opening.h"
#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/nvml/sensor.h"
#include "triplepoint/telemetry/open_file.h"
#include "triplepoint/telemetry/timeseries/reader.h"

using namespace triplepoint;

/// Labels that are accepted are names Prometheus accepts.
extern "C" int fuzz_job_labels(const std::uint8_t* data, std::size_t size) {
  const auto labels = telemetry::parse_job({reinterpret_cast<const char*>(data), size});
  if (!labels) return 0;
  for (const auto& [name, value] : *labels) {
    TPT_ENSURE(!name.empty() && name != "host" && !name.starts_with("__"));
    TPT_ENSURE(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_") == std::string::npos);
  }
  return 0;
}

// Other samplers' files: read or refused.

namespace triplepoint {
namespace {

const Path& folder() {
  static const Path path = [] {
    Path made = std::filesystem::temp_directory_path() /
                ("triplepoint_series_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made;
  }();
  return path;
}

void check(const run::Run& run) {
  for (const run::Series& series : run.series) {
    TPT_EXPECT(series.times.size() == series.values.size());
    for (size_t i = 1; i < series.times.size(); ++i)
      TPT_EXPECT(series.times[i - 1] < series.times[i]);
  }
  for (const run::StepRecord& step : run.steps)
    TPT_EXPECT(step.begin < step.end);
}

void check(const std::optional<double>& value, std::string_view signal) {
  if (value) TPT_ENSURE(triplepoint::telemetry::plausible_range(signal).holds(*value));
}

}  // namespace
}  // namespace triplepoint

extern "C" int fuzz_time_series(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"series.csv", "other+gpu1.csv"}) {
    const Path file = folder() / name;
    std::ofstream(file, std::ios::binary) << text;
    if (const auto run = telemetry::read_time_series(file)) check(*run);
  }
  if (const auto run = telemetry::read_time_series(folder())) check(*run);
  return 0;
}

/// Bytes are a snapshot whose every number is a plausible one, or an error.
extern "C" int fuzz_gpu_metrics(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint::telemetry;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto metrics = amd::parse_gpu_metrics(bytes);
  if (!metrics) {
    TPT_ENSURE(!metrics.error().what.empty());
    return 0;
  }
  TPT_ENSURE(metrics->content >= 1 && metrics->content <= 7);
  check(metrics->edge_c, "die_c");
  check(metrics->junction_c, "junction_c");
  check(metrics->memory_c, "memory_c");
  check(metrics->power_average_w, "power_average_w");
  check(metrics->power_instant_w, "power_instant_w");
  check(metrics->utilization, "utilization");
  check(metrics->sm_clock_mhz, "sm_clock_mhz");
  if (metrics->energy) TPT_ENSURE(!is_sentinel(*metrics->energy, 64));
  if (metrics->throttle_bits) (void)amd::reasons_of(*metrics->throttle_bits);
  // What follows the snapshot does not matter.
  TPT_ENSURE(amd::parse_gpu_metrics(std::string(bytes) + "x") == metrics);
  return 0;
}

/// Any text of the kernel, of ipmitool or of a user's --devices is read, or is nothing.
extern "C" int fuzz_sensor_texts(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint::telemetry;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto number = leading_number(text)) TPT_ENSURE(std::isfinite(*number));
  (void)leading_count(text);
  if (const auto ticks = host::parse_proc_stat(text))
    TPT_ENSURE(ticks->user <= 1ULL << 61U && ticks->system <= 1ULL << 62U);
  if (const auto memory = host::parse_meminfo(text)) TPT_ENSURE(memory->used_b <= memory->total_b);
  if (const auto watts = host::parse_dcmi_power(text)) TPT_ENSURE(*watts > 0);
  if (const auto counter = host::parse_pm_counter(text)) {
    TPT_ENSURE(std::isfinite(counter->value) && counter->value >= 0);
    if (counter->unix_us) TPT_ENSURE(*counter->unix_us >= 0);
  }
  const host::CpuInfo info = host::parse_cpuinfo(text);
  TPT_ENSURE(info.threads >= 0 && info.sockets >= 0 && info.cores >= 0);
  (void)nvml::plain_pci(text);
  triplepoint::run::Device device;
  device.uuid = "GPU-5eed0000", device.pci = "0000:1b:00.0";
  const auto selected = select_devices({device}, {std::string(text)});
  TPT_ENSURE(selected ? selected->size() == 1 : !selected.error().what.empty());
  return 0;
}
