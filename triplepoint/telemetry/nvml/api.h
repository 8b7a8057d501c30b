// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>

#include "triplepoint/base/result.h"

/// NVIDIA's management library, declared by us: names, numbers and layouts are facts of its binary
/// interface (x86-64 and AArch64 Linux). Source: NVML API reference,
/// docs.nvidia.com/deploy/nvml-api; sizes and offsets as the NVML of CUDA 11 to 13 has them.
namespace triplepoint::telemetry::nvml {

struct OpaqueDevice;
using Handle = OpaqueDevice*;

/// A shared library opened at run time: nothing of a vendor is linked.
class Library {
 public:
  static Result<std::unique_ptr<Library>> open(const std::string& name);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  /// The first of these symbols that the library has, newest name first; null if it has none.
  template <class Function>
  void find(Function*& function, std::initializer_list<const char*> names) const {
    function = reinterpret_cast<Function*>(symbol(names));
  }

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* symbol(std::initializer_list<const char*> names) const;
  void* handle_;
};

/// What a call returns, as far as we tell answers apart.
struct Code {
  static constexpr int success = 0, uninitialized = 1, invalid_argument = 2, not_supported = 3,
                       no_permission = 4, not_found = 6, insufficient_size = 7,
                       driver_not_loaded = 9, function_not_found = 13, gpu_is_lost = 15,
                       reset_required = 16, version_mismatch = 18, gpu_not_found = 28,
                       unknown = 999;
};

enum class ValueType : int32_t { f64, u32, u64_long, u64, i64, i32, u16 };

union Value {
  double f64;
  uint32_t u32;
  uint64_t u64;
  int64_t i64;
  int32_t i32;
  uint16_t u16;
};

struct FieldValue {
  uint32_t field = 0, scope = 0;
  int64_t timestamp_us = 0;  // time of day
  int64_t latency_us = 0;    // that the driver took to bring it up to date
  int32_t type = 0, code = 0;
  Value value{.u64 = 0};
};
static_assert(sizeof(FieldValue) == 40);

struct Utilization {
  uint32_t gpu = 0, memory = 0;  // percent
};
struct Memory {
  uint64_t total = 0, free = 0, used = 0;
};
struct MemoryV2 {
  uint32_t version = 0x2000028;
  uint64_t total = 0, reserved = 0, free = 0, used = 0;
};
static_assert(sizeof(MemoryV2) == 40);
struct PciInfo {
  char legacy[16] = {};
  uint32_t domain = 0, bus = 0, device = 0, device_id = 0, subsystem_id = 0;
  char bus_id[32] = {};
};
static_assert(sizeof(PciInfo) == 68);
struct Temperature {
  uint32_t version = 0x100000c;
  int32_t sensor = 0, celsius = 0;
};
static_assert(sizeof(Temperature) == 12);
struct GpmSupport {
  uint32_t version = 1, supported = 0;
};
struct GpmMetric {
  uint32_t id = 0;
  int32_t code = 0;
  double value = 0;
  const char *short_name = nullptr, *long_name = nullptr, *unit = nullptr;
};
static_assert(sizeof(GpmMetric) == 40);
/// The head of what nvmlGpmMetricsGet takes; entries follow. Older drivers look at fewer entries.
struct GpmRequest {
  uint32_t version = 1, count = 0;
  void *before = nullptr, *after = nullptr;
};
static_assert(sizeof(GpmRequest) == 24);
inline constexpr std::size_t gpm_entries = 400;  // 333 in the newest header seen

/// A process with a context on the GPU; as calls of version 2 and 3 have it.
struct ProcessInfo {
  uint32_t pid = 0;
  uint64_t memory = 0;
  uint32_t gpu_instance = 0, compute_instance = 0;  // of MIG
};
static_assert(sizeof(ProcessInfo) == 24);

/// What nvmlEventSetWait_v2 fills.
struct EventData {
  Handle device = nullptr;
  unsigned long long type = 0, data = 0;  // data: of XID errors their number
  unsigned gpu_instance = 0, compute_instance = 0;
};
static_assert(sizeof(EventData) == 32);
inline constexpr unsigned long long xid_event = 8;

struct Clock {
  static constexpr unsigned sm = 1, memory = 2;
};
struct Threshold {
  static constexpr unsigned shutdown = 0, slowdown = 1;
};
inline constexpr uint32_t all_links = 0xffffffff;
inline constexpr unsigned most_links = 36;

/// A function of the library, by the first of these names that it has. Where it has none, calls
/// answer so.
template <class... Args>
class Function {
 public:
  Function(const Library& library, std::initializer_list<const char*> names) {
    library.find(function_, names);
  }
  explicit operator bool() const { return function_ != nullptr; }
  int operator()(Args... args) const {
    return function_ != nullptr ? function_(args...) : Code::function_not_found;
  }

 private:
  int (*function_)(Args...) = nullptr;
};

// nvmlDeviceGetPcieThroughput is left out on purpose: it blocks for 20 ms in each direction.
struct Api {
  const Library& library;
  Function<> init{library, {"nvmlInit_v2", "nvmlInit"}};
  Function<> shutdown{library, {"nvmlShutdown"}};
  Function<char*, unsigned> driver_version{library, {"nvmlSystemGetDriverVersion"}};
  Function<int*> cuda_version{
      library, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"}};
  Function<unsigned*> count{library, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}};
  Function<unsigned, Handle*> by_index{
      library, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}};
  Function<const char*, Handle*> by_uuid{library, {"nvmlDeviceGetHandleByUUID"}};
  Function<Handle, char*, unsigned> name{library, {"nvmlDeviceGetName"}};
  Function<Handle, char*, unsigned> uuid{library, {"nvmlDeviceGetUUID"}};
  Function<Handle, PciInfo*> pci{library, {"nvmlDeviceGetPciInfo_v3"}};
  Function<Handle, unsigned*> architecture{library, {"nvmlDeviceGetArchitecture"}};
  Function<Handle, int, FieldValue*> field_values{library, {"nvmlDeviceGetFieldValues"}};
  Function<Handle, Temperature*> temperature_v{library, {"nvmlDeviceGetTemperatureV"}};
  Function<Handle, unsigned, unsigned*> temperature{library, {"nvmlDeviceGetTemperature"}};
  Function<Handle, unsigned, unsigned*> threshold{library, {"nvmlDeviceGetTemperatureThreshold"}};
  Function<Handle, unsigned, unsigned*> clock{library, {"nvmlDeviceGetClockInfo"}};
  Function<Handle, unsigned, unsigned*> max_clock{library, {"nvmlDeviceGetMaxClockInfo"}};
  Function<Handle, Utilization*> utilization{library, {"nvmlDeviceGetUtilizationRates"}};
  Function<Handle, unsigned long long*> reasons{
      library,
      {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}};
  Function<Handle, MemoryV2*> memory_v2{library, {"nvmlDeviceGetMemoryInfo_v2"}};
  Function<Handle, Memory*> memory{library, {"nvmlDeviceGetMemoryInfo"}};
  Function<Handle, unsigned*> power{library, {"nvmlDeviceGetPowerUsage"}};
  Function<Handle, unsigned long long*> energy{library, {"nvmlDeviceGetTotalEnergyConsumption"}};
  Function<Handle, unsigned*> power_limit{library, {"nvmlDeviceGetEnforcedPowerLimit"}};
  Function<Handle, unsigned*> power_limit_default{library,
                                                  {"nvmlDeviceGetPowerManagementDefaultLimit"}};
  Function<Handle, unsigned*, unsigned*> power_limit_range{
      library, {"nvmlDeviceGetPowerManagementLimitConstraints"}};
  Function<Handle, unsigned*> fan{library, {"nvmlDeviceGetFanSpeed"}};
  Function<Handle, unsigned*> pcie_width{library, {"nvmlDeviceGetCurrPcieLinkWidth"}};
  Function<Handle, unsigned*> pcie_width_max{library, {"nvmlDeviceGetMaxPcieLinkWidth"}};
  Function<Handle, unsigned, unsigned*> link_state{library, {"nvmlDeviceGetNvLinkState"}};
  Function<Handle, unsigned, PciInfo*> link_remote_pci{library,
                                                       {"nvmlDeviceGetNvLinkRemotePciInfo_v2"}};
  Function<Handle, unsigned, unsigned*> link_remote_type{library,
                                                         {"nvmlDeviceGetNvLinkRemoteDeviceType"}};
  Function<Handle, unsigned*, unsigned*> mig_mode{library, {"nvmlDeviceGetMigMode"}};
  Function<Handle, unsigned*> persistence{library, {"nvmlDeviceGetPersistenceMode"}};
  Function<Handle, unsigned*, ProcessInfo*> processes{
      library,
      {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}};
  Function<void**> event_set_create{library, {"nvmlEventSetCreate"}};
  Function<void*> event_set_free{library, {"nvmlEventSetFree"}};
  Function<Handle, unsigned long long, void*> register_events{library,
                                                              {"nvmlDeviceRegisterEvents"}};
  Function<void*, EventData*, unsigned> event_wait{library, {"nvmlEventSetWait_v2"}};
  Function<Handle, GpmSupport*> gpm_support{library, {"nvmlGpmQueryDeviceSupport"}};
  Function<void**> gpm_alloc{library, {"nvmlGpmSampleAlloc"}};
  Function<void*> gpm_free{library, {"nvmlGpmSampleFree"}};
  Function<Handle, void*> gpm_sample{library, {"nvmlGpmSampleGet"}};
  Function<void*> gpm_metrics{library, {"nvmlGpmMetricsGet"}};
};

/// The library, opened and initialized; shut down at the end. Used by one thread per GPU.
class Driver {
 public:
  static Result<std::unique_ptr<Driver>> open(const std::string& library);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  /// Does not wait longer than half a second for the library to shut down.
  ~Driver();

  const Api& api() const { return api_; }
  /// Counts restarts: handles of another generation are void.
  int64_t generation() const { return generation_; }
  /// Shuts down and begins anew, unless another thread has done so since the generation `seen`.
  /// Takes as long as loading the driver's state; while another thread is at it, this one fails.
  int restart(int64_t seen);
  /// "GPU is lost (15)"
  std::string words(int code) const;

 private:
  explicit Driver(std::unique_ptr<Library> library);
  std::shared_ptr<Library> library_;
  Api api_;
  const char* (*error_string_)(int) = nullptr;
  std::mutex restarting_;
  std::atomic<int64_t> generation_ = 0;
  bool running_ = false;
};

}  // namespace triplepoint::telemetry::nvml
