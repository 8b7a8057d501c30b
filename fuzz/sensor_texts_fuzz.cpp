// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/kept_file.h"
#include "triplepoint/telemetry/nvml/sensor.h"
#include "triplepoint/telemetry/open_sensors.h"

/// Any text of the kernel, of ipmitool or of a user's --devices is read, or is nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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
