// SPDX-License-Identifier: Apache-2.0
// What a reading of 8 GPUs, 24 signals each, costs.
#include <benchmark/benchmark.h>

#include "triplepoint/telemetry/sampler/sampler.h"
#include "triplepoint/telemetry/sensor_opening.h"

#include "tests/doubles/fake_drivers.h"

namespace triplepoint {
namespace {

/// A whole tick against a made-up NVML whose calls cost the CPU time of real ones.
void tick_of_eight_gpus(benchmark::State& state) {
  const doubles::FakeNvml driver(
      "gpus 8\ncost field_values 60e-6\ncost utilization 8e-6\ncost sm_clock 4e-6\n"
      "cost memory_clock 4e-6\ncost temperature 4e-6\ncost reasons 4e-6\ncost memory 8e-6\n");
  telemetry::SensorOptions options;
  options.paths.nvml = driver.library();
  options.node_power = false;
  auto sensors = telemetry::open_sensors(options);
  if (!sensors) return state.SkipWithError(sensors.error().what.c_str());
  telemetry::Sampler sampler(std::move(sensors->all), {});
  std::vector<telemetry::Sample> samples;
  int64_t tick = 0;
  for (auto _ : state) {
    samples.clear();
    sampler.read_now(tick++ % 10 == 0, samples);
  }
}
BENCHMARK(tick_of_eight_gpus)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace triplepoint
