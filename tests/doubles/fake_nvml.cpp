// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 made up by a script (the file named by TRIPLEPOINT_FAKE_NVML; README.md has
// its statements). Built in three ages, FAKE_NVML_AGE: what later NVML added is missing in the
// older ones.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "triplepoint/telemetry/nvml/api.h"

#include "tests/doubles/fake_script.h"

using namespace triplepoint::doubles;
using namespace triplepoint::telemetry::nvml;

#define FAKE_API extern "C" __attribute__((visibility("default"))) int

namespace triplepoint::telemetry::nvml {
struct OpaqueDevice {
  int gpu = 0;
  int age = 0;  // a handle is void once the driver was reset or the GPU lost
};
}  // namespace triplepoint::telemetry::nvml

namespace {

struct Driver {
  Script script;
  FakeClock clock;
  bool running = false;
  int age = 0;  // of handles
  double counts_since = 0;
  std::array<OpaqueDevice, 1024> handles{};
  std::atomic<std::size_t> used = 0;
};

Driver driver;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a library's state

double now() {
  return driver.clock.now();
}

bool within(const Fault& fault, double at) {
  return at >= fault.begin && at < fault.end;
}

/// A driver reset voids handles and starts counters anew; until nvmlInit nothing answers.
void look_for_reset() {
  for (const Fault& reset : driver.script.resets)
    if (now() >= reset.begin && driver.counts_since < reset.end) {
      driver.running = false;
      driver.counts_since = reset.end;
      ++driver.age;
    }
}

int lost_code(int gpu) {
  for (const Fault& loss : driver.script.losses)
    if ((loss.gpu < 0 || loss.gpu == gpu) && within(loss, now())) return loss.code;
  return 0;
}

/// A call into a driver that does not answer: it returns when the script says so.
void block(int gpu, const char* call) {
  while (driver.script.blocked_until(gpu, call, now()))
    spend({0, 0.01});
}

/// What any call on a handle answers first.
int enter(Handle handle, const char* call) {
  if (handle != nullptr) block(handle->gpu, call);
  if (const auto cost = driver.script.cost.find(call); cost != driver.script.cost.end())
    spend(cost->second);
  look_for_reset();
  for (const Fault& reset : driver.script.resets)
    if (within(reset, now())) return Code::gpu_is_lost;
  if (!driver.running) return Code::uninitialized;
  if (handle == nullptr) return Code::invalid_argument;
  if (handle->age != driver.age) return Code::gpu_is_lost;
  if (const int code = lost_code(handle->gpu)) {
    handle->age = -1;  // it does not come back by itself
    return code;
  }
  const Fault* const fault = driver.script.fault(handle->gpu, call, now());
  return fault != nullptr ? fault->code : 0;
}

bool says_sentinel(Handle handle, const char* call) {
  const Fault* const fault = driver.script.fault(handle->gpu, call, now());
  return fault != nullptr && fault->code == 0;
}

double value(int gpu, const std::string& signal, double otherwise) {
  const Wave* const wave = driver.script.wave(gpu, signal);
  return wave != nullptr ? wave->value(now()) : otherwise;
}

/// What a counter has counted since the driver began, at the counters' own pace.
double counted(int gpu, const std::string& rate, double otherwise, double period) {
  const Wave* const wave = driver.script.wave(gpu, rate);
  const double at = period > 0 ? std::floor(now() / period) * period : now();
  const double since = driver.counts_since < at ? driver.counts_since : at;
  if (wave == nullptr) return otherwise * (at - since);
  return wave->integral(at) - wave->integral(since);
}

uint64_t first(const std::string& counter) {
  const auto found = driver.script.start.find(counter);
  return found != driver.script.start.end() && driver.counts_since == 0 ? found->second : 0;
}

Handle handle_of(int gpu) {
  OpaqueDevice& handle = driver.handles.at(driver.used++ % driver.handles.size());
  handle = {gpu, driver.age};
  return &handle;
}

std::string uuid_of(int gpu) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "GPU-%08x-fa4e-4000-8000-000000000000", 0x5eed0000 + gpu);
  return text.data();
}

/// Not std::to_string: its table would be a unique symbol, which keeps dlclose from unloading this.
std::string text_of(uint32_t number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%u", number);
  return text.data();
}

int copy(const std::string& from, char* to, unsigned size) {
  if (from.size() + 1 > size) return Code::insufficient_size;
  std::memcpy(to, from.c_str(), from.size() + 1);
  return Code::success;
}

void set_u32(FieldValue& field, double number) {
  field.type = static_cast<int32_t>(ValueType::u32);
  field.value.u64 = 0;
  field.value.u32 = static_cast<uint32_t>(std::llround(number));
}
void set_u64(FieldValue& field, uint64_t number) {
  field.type = static_cast<int32_t>(ValueType::u64);
  field.value.u64 = number;
}

/// Power as the sensor shows it: the mean of a window that ends at its last update.
void set_power(FieldValue& field, int gpu, const char* signal, double window) {
  const Wave* const wave = driver.script.wave(gpu, signal);
  const double period = driver.script.period;
  const double update = std::floor(now() / period) * period;
  set_u32(field, 1000 * (wave != nullptr ? wave->mean(update - window, update) : 90.0));
  field.timestamp_us = driver.clock.unix_us(update);
}

void set_counter(FieldValue& field, int gpu, const char* counter, const char* rate,
                 std::pair<double, double> otherwise_and_unit) {
  const double period = driver.script.counter_period;
  const auto [otherwise, per_unit] = otherwise_and_unit;
  set_u64(field,
          first(counter) + static_cast<uint64_t>(counted(gpu, rate, otherwise, period) * per_unit));
  field.timestamp_us =
      driver.clock.unix_us(period > 0 ? std::floor(now() / period) * period : now());
}

void set_bytes(FieldValue& field, int gpu, const char* counter, double per_unit) {
  const auto bytes = static_cast<uint64_t>(counted(gpu, counter, 0, 0) * per_unit) + first(counter);
  set_u64(field, bytes);
}

bool is_blackwell() {
  return driver.script.architecture >= 10;
}

bool set_links(FieldValue& field, int gpu) {
  const bool out = field.field == 138 || field.field == 140 || field.field == 202;
  const char* const counter = out ? "scale_up_tx" : "scale_up_rx";
  if (driver.script.links == 0) return false;
  if (field.field < 200) {  // KiB over all links; link 0 alone has its share
    const double share = field.scope == all_links ? 1.0 : 1.0 / driver.script.links;
    set_bytes(field, gpu, counter, is_blackwell() ? 0 : share / 1024);
    return true;
  }
  if (!is_blackwell() || field.scope >= static_cast<uint32_t>(driver.script.links)) return false;
  set_bytes(field, gpu, counter, 1.0 / driver.script.links);
  return true;
}

bool set_residency(FieldValue& field, int gpu) {
  static const std::map<uint32_t, const char*> fixed = {
      {74, "sw_power_cap"}, {75, "sw_thermal_slowdown"}, {76, "sync_boost"}};
  const char* reason = nullptr;
  const auto base = static_cast<uint32_t>(driver.script.numbering);
  if (const auto found = fixed.find(field.field); found != fixed.end()) reason = found->second;
  if (field.field == base) reason = "sw_thermal_slowdown";
  if (field.field == base + 1) reason = "hw_thermal_slowdown";
  if (field.field == base + 2) reason = "hw_power_brake";
  if (reason != nullptr) {
    set_counter(field, gpu, reason, reason, {0, 1e9});
    return true;
  }
  // The other set of numbers is power smoothing, which Blackwell answers with small numbers.
  const bool smoothing = is_blackwell() && ((field.field >= 251 && field.field < 254) ||
                                            (field.field >= 269 && field.field < 272));
  if (smoothing) set_u32(field, 1);
  return smoothing;
}

bool set_gauge(FieldValue& field, int gpu) {
  if (field.field == 186 && field.scope == 2)
    set_power(field, gpu, "memory_power", driver.script.window);
  else if (field.field == 186)
    set_power(field, gpu, "power", driver.script.window);
  else if (field.field == 185)
    set_power(field, gpu, field.scope == 2 ? "memory_power" : "power", 1);
  else if (field.field == 82)
    set_u32(field, value(gpu, "memory_temperature", 40));
  else if (field.field == 83)
    set_counter(field, gpu, "energy", "power", {90, 1000});
  else if (field.field == 164)
    set_u32(field, 26562);
  else
    return false;
  return true;
}

bool set_field(FieldValue& field, int gpu) {
  if (field.field == 197 || field.field == 198) {
    set_bytes(field, gpu, field.field == 197 ? "pcie_tx" : "pcie_rx", 1);
    if (driver.script.pcie_bits == 32) set_u32(field, static_cast<uint32_t>(field.value.u64));
    return true;
  }
  const bool link =
      (field.field >= 138 && field.field <= 141) || field.field == 202 || field.field == 204;
  return link ? set_links(field, gpu) : set_gauge(field, gpu) || set_residency(field, gpu);
}

/// The newest field this age of the library knows.
uint32_t newest_field() {
  return FAKE_NVML_AGE <= 11 ? 170 : FAKE_NVML_AGE == 12 ? 204 : 300;
}

void answer(FieldValue& field, int gpu) {
  field.timestamp_us = driver.clock.unix_us(now());
  field.code = field.field > newest_field() ? Code::invalid_argument : Code::not_supported;
  if (field.field > newest_field() || !set_field(field, gpu)) return;
  field.code = Code::success;
  if (const auto found = driver.script.latency_us.find(field.field);
      found != driver.script.latency_us.end())
    field.latency_us = found->second;
  if (driver.script.faults.empty() && driver.script.cost.empty()) return;
  const std::string number = text_of(field.field);
  if (const auto cost = driver.script.cost.find(number); cost != driver.script.cost.end())
    spend(cost->second);
  const Fault* fault = driver.script.fault(gpu, number, now());
  if (fault == nullptr)
    fault = driver.script.fault(gpu, number + "/" + text_of(field.scope), now());
  if (fault == nullptr) return;
  field.code = fault->code;
  if (fault->code == 0) field.value.u64 = ~0ULL;
}

int give(Handle handle, const char* call, unsigned* to, double number) {
  const int code = enter(handle, call);
  if (code == Code::success)
    *to = says_sentinel(handle, call) ? ~0U : static_cast<unsigned>(number);
  return code;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVML's names
/// For tests in the same process: from now on the script's clock stands where it is put.
extern "C" __attribute__((visibility("default"))) void triplepoint_fake_set_time(double at) {
  driver.clock.set(at);
}

FAKE_API nvmlInit_v2() {
  driver.script = Script::from_environment("TRIPLEPOINT_FAKE_NVML");
  driver.clock.start();
  block(-1, "init");
  look_for_reset();
  for (const Fault& reset : driver.script.resets)
    if (within(reset, now())) return Code::driver_not_loaded;
  if (const Fault* const fault = driver.script.fault(-1, "init", now())) return fault->code;
  driver.running = true;
  return Code::success;
}
FAKE_API nvmlShutdown() {
  block(-1, "shutdown");
  driver.running = false;
  return Code::success;
}
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(int code) {
  switch (code) {
    case Code::not_supported:
      return "Not Supported";
    case Code::gpu_is_lost:
      return "GPU is lost";
    case Code::uninitialized:
      return "Uninitialized";
    case Code::driver_not_loaded:
      return "Driver Not Loaded";
    case Code::no_permission:
      return "Insufficient Permissions";
    case Code::invalid_argument:
      return "Invalid Argument";
    default:
      return "Unknown Error";
  }
}
FAKE_API nvmlSystemGetDriverVersion(char* to, unsigned size) {
  return copy(driver.script.driver, to, size);
}
FAKE_API nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return Code::success;
}
FAKE_API nvmlDeviceGetCount_v2(unsigned* count) {
  look_for_reset();
  if (!driver.running) return Code::uninitialized;
  *count = static_cast<unsigned>(driver.script.gpus);
  return Code::success;
}
FAKE_API nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle* handle) {
  block(static_cast<int>(index), "index");
  look_for_reset();
  if (!driver.running) return Code::uninitialized;
  if (index >= static_cast<unsigned>(driver.script.gpus)) return Code::invalid_argument;
  if (const int code = lost_code(static_cast<int>(index))) return code;
  *handle = handle_of(static_cast<int>(index));
  return Code::success;
}
FAKE_API nvmlDeviceGetHandleByUUID(const char* uuid, Handle* handle) {
  look_for_reset();
  if (!driver.running) return Code::uninitialized;
  for (int gpu = 0; gpu < driver.script.gpus; ++gpu)
    if (uuid_of(gpu) == uuid)
      return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), handle);
  return Code::not_found;
}
FAKE_API nvmlDeviceGetName(Handle handle, char* to, unsigned size) {
  const int code = enter(handle, "name");
  return code != 0 ? code : copy(driver.script.name, to, size);
}
FAKE_API nvmlDeviceGetUUID(Handle handle, char* to, unsigned size) {
  const int code = enter(handle, "uuid");
  return code != 0 ? code : copy(uuid_of(handle->gpu), to, size);
}
FAKE_API nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo* pci) {
  if (const int code = enter(handle, "pci")) return code;
  *pci = {};
  pci->bus = static_cast<uint32_t>(0x1a + handle->gpu);
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  return Code::success;
}
FAKE_API nvmlDeviceGetArchitecture(Handle handle, unsigned* to) {
  return give(handle, "architecture", to, driver.script.architecture);
}
FAKE_API nvmlDeviceGetFieldValues(Handle handle, int count, FieldValue* fields) {
  if (const int code = enter(handle, "field_values")) return code;
  for (int i = 0; i < count; ++i)
    answer(fields[i], handle->gpu);
  return Code::success;
}
FAKE_API nvmlDeviceGetTemperature(Handle handle, unsigned, unsigned* to) {
  return give(handle, "temperature", to, value(handle->gpu, "temperature", 35));
}
FAKE_API nvmlDeviceGetTemperatureThreshold(Handle handle, unsigned which, unsigned* to) {
  static constexpr std::array<unsigned, 4> limits = {95, 90, 105, 87};
  return which < 4 ? give(handle, "threshold", to, limits.at(which)) : Code::not_supported;
}
FAKE_API nvmlDeviceGetClockInfo(Handle handle, unsigned which, unsigned* to) {
  return which == 1 ? give(handle, "sm_clock", to, value(handle->gpu, "sm_clock", 1980))
                    : give(handle, "memory_clock", to, value(handle->gpu, "memory_clock", 2619));
}
FAKE_API nvmlDeviceGetMaxClockInfo(Handle handle, unsigned which, unsigned* to) {
  return give(handle, "max_clock", to, which == 1 ? 1980 : 2619);
}
FAKE_API nvmlDeviceGetUtilizationRates(Handle handle, Utilization* to) {
  if (const int code = enter(handle, "utilization")) return code;
  if (std::ranges::count(driver.script.mig, handle->gpu) > 0) return Code::not_supported;
  *to = {static_cast<uint32_t>(value(handle->gpu, "utilization", 0)),
         static_cast<uint32_t>(value(handle->gpu, "memory_utilization", 0))};
  if (says_sentinel(handle, "utilization")) *to = {~0U, ~0U};
  return Code::success;
}
#if FAKE_NVML_AGE >= 12
FAKE_API nvmlDeviceGetCurrentClocksEventReasons(Handle handle, unsigned long long* to) {
#else
FAKE_API nvmlDeviceGetCurrentClocksThrottleReasons(Handle handle, unsigned long long* to) {
#endif
  if (const int code = enter(handle, "reasons")) return code;
  *to = says_sentinel(handle, "reasons")
            ? ~0ULL
            : static_cast<unsigned long long>(value(handle->gpu, "reasons", 1));
  return Code::success;
}
struct FakeEventSet {
  Handle handle = nullptr;
  double since = 0;
};
FAKE_API nvmlEventSetCreate(void** set) {
  *set = new FakeEventSet;  // NOLINT(cppcoreguidelines-owning-memory): freed by nvmlEventSetFree
  return Code::success;
}
FAKE_API nvmlEventSetFree(void* set) {
  delete static_cast<FakeEventSet*>(set);  // NOLINT(cppcoreguidelines-owning-memory)
  return Code::success;
}
FAKE_API nvmlDeviceRegisterEvents(Handle handle, unsigned long long, void* set) {
  if (driver.script.xids.empty()) return Code::not_supported;
  *static_cast<FakeEventSet*>(set) = {handle, now()};
  return Code::success;
}
FAKE_API nvmlEventSetWait_v2(void* raw, EventData* event, unsigned) {
  constexpr int timeout = 10;
  FakeEventSet& set = *static_cast<FakeEventSet*>(raw);
  for (const Fault& xid : driver.script.xids) {
    if (xid.gpu != set.handle->gpu || xid.begin > now() || xid.begin <= set.since) continue;
    set.since = xid.begin;
    *event = {.device = set.handle, .type = xid_event, .data = static_cast<unsigned>(xid.code)};
    return Code::success;
  }
  return timeout;
}
FAKE_API nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned* count, ProcessInfo* to) {
  if (const int code = enter(handle, "processes")) return code;
  const unsigned room = *count;
  *count = 0;
  std::FILE* const file = std::fopen(driver.script.processes.c_str(), "r");
  if (file == nullptr) return Code::success;
  int gpu = 0;
  unsigned pid = 0;
  while (*count < room && std::fscanf(file, "%d %u", &gpu, &pid) == 2)
    if (gpu == handle->gpu) to[(*count)++] = {.pid = pid};
  std::fclose(file);
  return Code::success;
}
FAKE_API nvmlDeviceGetMemoryInfo(Handle handle, Memory* to) {
  if (const int code = enter(handle, "memory")) return code;
  const uint64_t total = 85520809984ULL;
  const auto used = static_cast<uint64_t>(value(handle->gpu, "memory_used", 1e9));
  *to = {total, total - used, used};
  if (says_sentinel(handle, "memory")) *to = {~0ULL, ~0ULL, ~0ULL};
  return Code::success;
}
FAKE_API nvmlDeviceGetPowerUsage(Handle handle, unsigned* to) {
  FieldValue field;
  if (const int code = enter(handle, "power")) return code;
  set_power(field, handle->gpu, "power",
            driver.script.architecture <= 6 ? driver.script.window : 1);
  return give(handle, "power", to, field.value.u32);
}
FAKE_API nvmlDeviceGetTotalEnergyConsumption(Handle handle, unsigned long long* to) {
  if (const int code = enter(handle, "energy")) return code;
  FieldValue field;
  set_counter(field, handle->gpu, "energy", "power", {90, 1000});
  *to = says_sentinel(handle, "energy") ? ~0ULL : field.value.u64;
  return Code::success;
}
FAKE_API nvmlDeviceGetEnforcedPowerLimit(Handle handle, unsigned* to) {
  return give(handle, "power_limit", to, 1000 * value(handle->gpu, "power_limit", 700));
}
FAKE_API nvmlDeviceGetPowerManagementDefaultLimit(Handle handle, unsigned* to) {
  return give(handle, "power_limit", to, 700000);
}
FAKE_API nvmlDeviceGetPowerManagementLimitConstraints(Handle handle, unsigned* low,
                                                      unsigned* high) {
  *high = 700000;
  return give(handle, "power_limit", low, 200000);
}
FAKE_API nvmlDeviceGetCurrPcieLinkGeneration(Handle handle, unsigned* to) {
  return give(handle, "pcie", to, 5);
}
FAKE_API nvmlDeviceGetCurrPcieLinkWidth(Handle handle, unsigned* to) {
  return give(handle, "pcie", to, 16);
}
FAKE_API nvmlDeviceGetNvLinkState(Handle handle, unsigned link, unsigned* to) {
  if (link >= static_cast<unsigned>(driver.script.links)) return Code::invalid_argument;
  return give(handle, "links", to, 1);
}
FAKE_API nvmlDeviceGetNvLinkRemoteDeviceType(Handle handle, unsigned, unsigned* to) {
  return give(handle, "links", to, 2);
}
FAKE_API nvmlDeviceGetMigMode(Handle handle, unsigned* current, unsigned* pending) {
  if (const int code = enter(handle, "mig")) return code;
  *current = *pending = std::ranges::count(driver.script.mig, handle->gpu) > 0 ? 1 : 0;
  return Code::success;
}
FAKE_API nvmlDeviceGetPersistenceMode(Handle handle, unsigned* to) {
  return give(handle, "persistence", to, 1);
}

#if FAKE_NVML_AGE >= 12
FAKE_API nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2* to) {
  Memory older;
  if (to->version != 0x2000028) return 25;
  const int code = nvmlDeviceGetMemoryInfo(handle, &older);
  to->total = older.total, to->free = older.free, to->used = older.used, to->reserved = 0;
  return code;
}

namespace {

struct GpmSample {
  int gpu = 0;
  double at = -1;
};

double gpm_share(int gpu, uint32_t metric) {
  switch (metric) {
    case 5:
      return value(gpu, "tensor", 0.5);
    case 10:
      return value(gpu, "memory_active", 0.3);
    default:
      return value(gpu, "sm", 0.9);
  }
}

}  // namespace

FAKE_API nvmlGpmQueryDeviceSupport(Handle handle, GpmSupport* support) {
  if (const int code = enter(handle, "gpm")) return code;
  support->supported = driver.script.architecture >= 9 ? 1 : 0;
  return Code::success;
}
FAKE_API nvmlGpmSampleAlloc(void** sample) {
  *sample = new GpmSample();
  return Code::success;
}
FAKE_API nvmlGpmSampleFree(void* sample) {
  delete static_cast<GpmSample*>(sample);
  return Code::success;
}
FAKE_API nvmlGpmSampleGet(Handle handle, void* sample) {
  if (const int code = enter(handle, "gpm")) return code;
  *static_cast<GpmSample*>(sample) = {handle->gpu, now()};
  return Code::success;
}
/// Two samples less than a tenth of a second apart, or in the wrong order, give nonsense.
FAKE_API nvmlGpmMetricsGet(void* request) {
  GpmRequest head;
  std::memcpy(&head, request, sizeof head);
  const auto* const before = static_cast<const GpmSample*>(head.before);
  const auto* const after = static_cast<const GpmSample*>(head.after);
  auto* const metrics = reinterpret_cast<GpmMetric*>(static_cast<char*>(request) + sizeof head);
  for (uint32_t i = 0; i < head.count; ++i) {
    const bool valid = before->at >= 0 && after->at - before->at > 0.0999;
    metrics[i].code = Code::success;
    metrics[i].value = valid ? 100 * gpm_share(after->gpu, metrics[i].id) : 1e9;
  }
  return Code::success;
}
#endif

#if FAKE_NVML_AGE >= 13
FAKE_API nvmlDeviceGetTemperatureV(Handle handle, Temperature* to) {
  unsigned celsius = 0;
  if (to->version != 0x100000c) return 25;
  const int code = nvmlDeviceGetTemperature(handle, 0, &celsius);
  to->celsius = static_cast<int32_t>(celsius);
  return code;
}
#endif
// NOLINTEND(readability-identifier-naming)
