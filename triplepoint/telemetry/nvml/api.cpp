// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/api.h"

#include <fmt/format.h>

#include "triplepoint/system/process.h"

namespace triplepoint::telemetry::nvml {
namespace {

void find_system(const Library& in, Api& api) {
  in.find(api.init, {"nvmlInit_v2", "nvmlInit"});
  in.find(api.shutdown, {"nvmlShutdown"});
  in.find(api.error_string, {"nvmlErrorString"});
  in.find(api.driver_version, {"nvmlSystemGetDriverVersion"});
  in.find(api.cuda_version,
          {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  in.find(api.count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  in.find(api.by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  in.find(api.by_uuid, {"nvmlDeviceGetHandleByUUID"});
}

void find_identity(const Library& in, Api& api) {
  in.find(api.name, {"nvmlDeviceGetName"});
  in.find(api.uuid, {"nvmlDeviceGetUUID"});
  in.find(api.serial, {"nvmlDeviceGetSerial"});
  in.find(api.pci, {"nvmlDeviceGetPciInfo_v3"});
  in.find(api.architecture, {"nvmlDeviceGetArchitecture"});
  in.find(api.pcie_generation, {"nvmlDeviceGetCurrPcieLinkGeneration"});
  in.find(api.pcie_width, {"nvmlDeviceGetCurrPcieLinkWidth"});
  in.find(api.pcie_generation_max, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  in.find(api.pcie_width_max, {"nvmlDeviceGetMaxPcieLinkWidth"});
  in.find(api.link_state, {"nvmlDeviceGetNvLinkState"});
  in.find(api.link_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  in.find(api.link_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  in.find(api.mig_mode, {"nvmlDeviceGetMigMode"});
  in.find(api.persistence, {"nvmlDeviceGetPersistenceMode"});
  in.find(api.ecc, {"nvmlDeviceGetEccMode"});
  in.find(api.processes,
          {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
}

// nvmlDeviceGetPcieThroughput is left out on purpose: it blocks for 20 ms in each direction.
void find_readings(const Library& in, Api& api) {
  in.find(api.field_values, {"nvmlDeviceGetFieldValues"});
  in.find(api.temperature_v, {"nvmlDeviceGetTemperatureV"});
  in.find(api.temperature, {"nvmlDeviceGetTemperature"});
  in.find(api.threshold, {"nvmlDeviceGetTemperatureThreshold"});
  in.find(api.clock, {"nvmlDeviceGetClockInfo"});
  in.find(api.max_clock, {"nvmlDeviceGetMaxClockInfo"});
  in.find(api.utilization, {"nvmlDeviceGetUtilizationRates"});
  in.find(api.reasons,
          {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  in.find(api.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  in.find(api.memory, {"nvmlDeviceGetMemoryInfo"});
  in.find(api.power, {"nvmlDeviceGetPowerUsage"});
  in.find(api.energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  in.find(api.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  in.find(api.power_limit_default, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  in.find(api.power_limit_range, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  in.find(api.fan, {"nvmlDeviceGetFanSpeed"});
}

void find_counters(const Library& in, Api& api) {
  in.find(api.event_set_create, {"nvmlEventSetCreate"});
  in.find(api.event_set_free, {"nvmlEventSetFree"});
  in.find(api.register_events, {"nvmlDeviceRegisterEvents"});
  in.find(api.event_wait, {"nvmlEventSetWait_v2"});
  in.find(api.gpm_support, {"nvmlGpmQueryDeviceSupport"});
  in.find(api.gpm_alloc, {"nvmlGpmSampleAlloc"});
  in.find(api.gpm_free, {"nvmlGpmSampleFree"});
  in.find(api.gpm_sample, {"nvmlGpmSampleGet"});
  in.find(api.gpm_metrics, {"nvmlGpmMetricsGet"});
}

}  // namespace

Driver::Driver(std::unique_ptr<Library> library) : library_(std::move(library)) {
  find_system(*library_, api_);
  find_identity(*library_, api_);
  find_readings(*library_, api_);
  find_counters(*library_, api_);
}

Result<std::unique_ptr<Driver>> Driver::open(const std::string& library) {
  auto opened = TPT_TRY(Library::open(library));  // not inside new: a return there would leak
  std::unique_ptr<Driver> driver(new Driver(std::move(opened)));
  const Api& api = driver->api_;
  if (api.init == nullptr || api.shutdown == nullptr || api.count == nullptr ||
      api.by_index == nullptr)
    return error(fmt::format("{} is not NVML (it lacks nvmlInit)", library));
  const int code = api.init();
  if (code != Code::success) return error(driver->words(code));
  driver->running_ = true;
  return driver;
}

Driver::~Driver() {
  if (!running_) return;
  // The thread keeps the library loaded, where it does not return from the call.
  ends_within(500 * unit::ms,
              [library = std::move(library_), shutdown = api_.shutdown] { shutdown(); });
}

int Driver::restart(int64_t seen) {
  const std::unique_lock lock(restarting_, std::try_to_lock);
  if (!lock) return Code::uninitialized;
  if (generation_ != seen) return Code::success;
  if (running_) api_.shutdown();
  const int code = api_.init();
  running_ = code == Code::success;
  if (running_) ++generation_;
  return code;
}

std::string Driver::words(int code) const {
  const char* const text = api_.error_string != nullptr ? api_.error_string(code) : nullptr;
  return fmt::format("{} ({})", text != nullptr ? text : "NVML error", code);
}

}  // namespace triplepoint::telemetry::nvml
