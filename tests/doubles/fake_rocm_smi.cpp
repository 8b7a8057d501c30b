// SPDX-License-Identifier: Apache-2.0
// A librocm_smi64.so.1 made up by a script (the file named by TRIPLEPOINT_FAKE_ROCM_SMI): an MI300X
// without an edge sensor.
#include <cstdio>

#include "tests/doubles/fake_script.h"

using namespace triplepoint::doubles;

#define FAKE_API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int success = 0, not_supported = 2;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a library's state
Script script;
FakeClock fake_clock;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

int enter(uint32_t gpu, const char* call) {
  if (const auto cost = script.cost.find(call); cost != script.cost.end()) spend(cost->second);
  if (gpu >= static_cast<uint32_t>(script.gpus)) return 1;
  const Fault* const fault = script.fault(static_cast<int>(gpu), call, fake_clock.now());
  return fault != nullptr ? fault->code : success;
}

bool says_sentinel(uint32_t gpu, const char* call) {
  const Fault* const fault = script.fault(static_cast<int>(gpu), call, fake_clock.now());
  return fault != nullptr && fault->code == 0;
}

template <class Number>
int give(uint32_t gpu, const char* call, Number* to, double number) {
  const int code = enter(gpu, call);
  if (code == success)
    *to = says_sentinel(gpu, call) ? static_cast<Number>(-1) : static_cast<Number>(number);
  return code;
}

double value(uint32_t gpu, const char* signal, double otherwise) {
  const Wave* const wave = script.wave(static_cast<int>(gpu), signal);
  return wave != nullptr ? wave->value(fake_clock.now()) : otherwise;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void triplepoint_fake_set_time(double at) {
  fake_clock.set(at);
}

FAKE_API rsmi_init(uint64_t) {
  script = Script::from_environment("TRIPLEPOINT_FAKE_ROCM_SMI");
  fake_clock.start();
  const Fault* const fault = script.fault(-1, "init", fake_clock.now());
  return fault != nullptr ? fault->code : success;
}
FAKE_API rsmi_shut_down() {
  return success;
}
FAKE_API rsmi_num_monitor_devices(uint32_t* count) {
  *count = static_cast<uint32_t>(script.gpus);
  return success;
}
FAKE_API rsmi_dev_name_get(uint32_t gpu, char* to, std::size_t size) {
  std::snprintf(to, size, "AMD Instinct MI300X");
  return enter(gpu, "name");
}
FAKE_API rsmi_dev_unique_id_get(uint32_t gpu, uint64_t* to) {
  return give(gpu, "unique_id", to, 4096.0 + gpu);
}
FAKE_API rsmi_dev_pci_id_get(uint32_t gpu, uint64_t* to) {
  return give(gpu, "pci", to, (5.0 + gpu) * 256);
}
FAKE_API rsmi_dev_power_ave_get(uint32_t gpu, uint32_t, uint64_t* to) {
  return give(gpu, "power", to, 1e6 * value(gpu, "power", 140));
}
FAKE_API rsmi_dev_current_socket_power_get(uint32_t gpu, uint64_t* to) {
  return give(gpu, "power", to, 1e6 * value(gpu, "power", 140));
}
FAKE_API rsmi_dev_power_cap_get(uint32_t gpu, uint32_t, uint64_t* to) {
  return give(gpu, "power_cap", to, 750e6);
}
FAKE_API rsmi_dev_temp_metric_get(uint32_t gpu, uint32_t where, int, int64_t* to) {
  if (where == 0) return not_supported;
  return give(gpu, "temperature", to, 1000 * value(gpu, "temperature", 45));
}
FAKE_API rsmi_dev_busy_percent_get(uint32_t gpu, uint32_t* to) {
  return give(gpu, "busy", to, value(gpu, "utilization", 0));
}
FAKE_API rsmi_dev_memory_usage_get(uint32_t gpu, int, uint64_t* to) {
  return give(gpu, "memory", to, value(gpu, "memory_used", 3e8));
}
FAKE_API rsmi_dev_memory_total_get(uint32_t gpu, int, uint64_t* to) {
  return give(gpu, "memory", to, 206141652992.0);
}
