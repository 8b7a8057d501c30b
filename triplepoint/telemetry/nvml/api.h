// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/library.h"

/// NVIDIA's management library, declared by us: names, numbers and layouts are facts of its binary
/// interface (x86-64 and AArch64 Linux). Source: NVML API reference,
/// docs.nvidia.com/deploy/nvml-api; sizes and offsets as the NVML of CUDA 11 to 13 has them.
namespace triplepoint::telemetry::nvml {

struct OpaqueDevice;
using Handle = OpaqueDevice*;

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
  static constexpr unsigned shutdown = 0, slowdown = 1, memory_max = 2, gpu_max = 3;
};
inline constexpr uint32_t all_links = 0xffffffff;
inline constexpr unsigned most_links = 36;

/// Null where the library lacks the function.
struct Api {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  int (*by_uuid)(const char*, Handle*) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*serial)(Handle, char*, unsigned) = nullptr;
  int (*pci)(Handle, PciInfo*) = nullptr;
  int (*architecture)(Handle, unsigned*) = nullptr;
  int (*field_values)(Handle, int, FieldValue*) = nullptr;
  int (*temperature_v)(Handle, Temperature*) = nullptr;
  int (*temperature)(Handle, unsigned, unsigned*) = nullptr;
  int (*threshold)(Handle, unsigned, unsigned*) = nullptr;
  int (*clock)(Handle, unsigned, unsigned*) = nullptr;
  int (*max_clock)(Handle, unsigned, unsigned*) = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*reasons)(Handle, unsigned long long*) = nullptr;
  int (*memory_v2)(Handle, MemoryV2*) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*energy)(Handle, unsigned long long*) = nullptr;
  int (*power_limit)(Handle, unsigned*) = nullptr;
  int (*power_limit_default)(Handle, unsigned*) = nullptr;
  int (*power_limit_range)(Handle, unsigned*, unsigned*) = nullptr;
  int (*fan)(Handle, unsigned*) = nullptr;
  int (*pcie_generation)(Handle, unsigned*) = nullptr;
  int (*pcie_width)(Handle, unsigned*) = nullptr;
  int (*pcie_generation_max)(Handle, unsigned*) = nullptr;
  int (*pcie_width_max)(Handle, unsigned*) = nullptr;
  int (*link_state)(Handle, unsigned, unsigned*) = nullptr;
  int (*link_remote_pci)(Handle, unsigned, PciInfo*) = nullptr;
  int (*link_remote_type)(Handle, unsigned, unsigned*) = nullptr;
  int (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  int (*persistence)(Handle, unsigned*) = nullptr;
  int (*ecc)(Handle, unsigned*, unsigned*) = nullptr;
  int (*processes)(Handle, unsigned*, ProcessInfo*) = nullptr;
  int (*event_set_create)(void**) = nullptr;
  int (*event_set_free)(void*) = nullptr;
  int (*register_events)(Handle, unsigned long long, void*) = nullptr;
  int (*event_wait)(void*, EventData*, unsigned) = nullptr;
  int (*gpm_support)(Handle, GpmSupport*) = nullptr;
  int (*gpm_alloc)(void**) = nullptr;
  int (*gpm_free)(void*) = nullptr;
  int (*gpm_sample)(Handle, void*) = nullptr;
  int (*gpm_metrics)(void*) = nullptr;
};

/// The library, opened and initialized; shut down at the end. Used by one thread per GPU.
class Driver {
 public:
  static Result<std::unique_ptr<Driver>> open(const std::string& library);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  Driver(Driver&&) = delete;
  Driver& operator=(Driver&&) = delete;
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
  std::mutex restarting_;
  std::atomic<int64_t> generation_ = 0;
  bool running_ = false;
};

}  // namespace triplepoint::telemetry::nvml
