// SPDX-License-Identifier: Apache-2.0
// What one tick of the sensors costs us: CPU time for a node of eight GPUs, and the part of it that
// is the made-up driver's own.
#include <string>

#include <benchmark/benchmark.h>

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/nvml/sensor.h"

#include "tests/doubles/fake_drivers.h"
#include "tests/doubles/gpu_metrics_blob.h"

namespace {

using namespace triplepoint;
using namespace triplepoint::telemetry;

void read_all(benchmark::State& state, Sensor& sensor, bool slow) {
  std::vector<Reading> readings;
  for (auto _ : state) {
    readings.clear();
    sensor.read(slow, readings);
    benchmark::DoNotOptimize(readings.data());
  }
  state.counters["readings"] = static_cast<double>(readings.size());
}

const std::string node = "gpus 8\ngpu * power steps 0:100 1:700 every 2\n";

void nvml_tick(benchmark::State& state, bool slow) {
  doubles::FakeNvml fake(node);
  auto driver = nvml::Driver::open(fake.library());
  auto listed = nvml::list_devices(**driver);
  const auto sensor = nvml::make_sensor(std::move(*driver), std::move(listed), false);
  read_all(state, *sensor, slow);
}

void amd_tick(benchmark::State& state) {
  doubles::ScratchTree tree;
  auto blob = doubles::blob::unavailable<doubles::blob::V16>(6);
  blob.hotspot = 60, blob.curr_socket_power = 500, blob.accumulation_counter = 1, blob.ppt = 0;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const Path folder = Path("class/drm") / ("card" + std::to_string(gpu)) / "device";
    tree.write(folder / "vendor", "0x1002\n");
    tree.write(folder / "device", "0x74a1\n");
    tree.write(folder / "uevent", "PCI_SLOT_NAME=0000:0" + std::to_string(gpu) + ":00.0\n");
    tree.write(folder / "gpu_metrics", doubles::blob::bytes_of(blob));
  }
  const auto found = amd::find_in_sysfs(tree.root(), [](Seconds) {});
  const auto sensor = found->open(std::vector<bool>(8, true));
  read_all(state, *sensor, false);
}

/// The made-up driver's own cost: the calls of one tick, and nothing around them.
void driver_alone(benchmark::State& state) {
  doubles::FakeNvml fake(node);
  const auto driver = nvml::Driver::open(fake.library());
  const nvml::Api& api = (*driver)->api();
  const auto listed = nvml::list_devices(**driver);
  std::vector<nvml::FieldValue> fields;
  for (const uint32_t id : {186, 185, 83, 82, 138, 139, 197, 198, 74, 76, 269, 270, 271})
    fields.push_back({.field = id, .scope = id == 138 || id == 139 ? nvml::all_links : 0});
  for (auto _ : state)
    for (const nvml::Listed& gpu : listed) {
      unsigned number = 0;
      unsigned long long reasons = 0;
      nvml::Utilization utilization;
      nvml::Temperature temperature;
      api.field_values(gpu.handle, static_cast<int>(fields.size()), fields.data());
      api.temperature_v(gpu.handle, &temperature);
      api.clock(gpu.handle, nvml::Clock::sm, &number);
      api.clock(gpu.handle, nvml::Clock::memory, &number);
      api.utilization(gpu.handle, &utilization);
      api.reasons(gpu.handle, &reasons);
      benchmark::DoNotOptimize(reasons);
    }
}

void tick(benchmark::State& state) {
  nvml_tick(state, false);
}
void slow_tick(benchmark::State& state) {
  nvml_tick(state, true);
}

BENCHMARK(driver_alone)->Name("made-up nvml alone, eight GPUs")->Unit(benchmark::kMicrosecond);
BENCHMARK(tick)->Name("nvml, eight GPUs, a tick")->Unit(benchmark::kMicrosecond);
BENCHMARK(slow_tick)->Name("nvml, eight GPUs, a slow tick")->Unit(benchmark::kMicrosecond);
BENCHMARK(amd_tick)->Name("amdgpu, eight GPUs, a tick")->Unit(benchmark::kMicrosecond);

}  // namespace
