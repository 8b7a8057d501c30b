// SPDX-License-Identifier: Apache-2.0
// What recording costs: 8 GPUs, 24 signals each, ten readings a second.
#include <cmath>
#include <filesystem>

#include <benchmark/benchmark.h>

#include "triplepoint/base/random.h"

#include "triplepoint/store/growing_run.h"
#include "triplepoint/telemetry/open_sensors.h"
#include "triplepoint/telemetry/sampler/sampler.h"

#include "tests/doubles/fake_drivers.h"

namespace triplepoint {
namespace {

constexpr int devices = 8, signals = 24;

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

std::string file() {
  return (std::filesystem::temp_directory_path() / "triplepoint_recorder_bench.run").string();
}

/// As sensors show it: power, degrees, clock steps, a counter, bits, shares.
double reading(int signal, uint64_t series, uint64_t tick, double& state) {
  const double noise = random_normal({.seed = series}, tick);
  switch (signal % 6) {
    case 0:
      return std::round((600 + 15 * noise) * 1000) / 1000;
    case 1:
      return std::round(60 + noise);
    case 2:
      return 1980 - 15 * std::floor(2 * std::abs(noise));
    case 3:
      return state += std::round(60000 + 1500 * noise);
    case 4:
      return noise > 2 ? 0 : 4;
    default:
      return std::round(50 + 20 * noise) / 100;
  }
}

class Recording {
 public:
  Recording() : states_(devices * signals, 0) {
    std::filesystem::remove(file());
    std::filesystem::remove(run::tail_of(file()));
    run::Run start;
    start.manifest.origin = run::Origin::measured;
    for (int32_t device = 0; device < devices; ++device)
      start.devices.push_back({.index = device, .local = device});
    growing.emplace(run::GrowingRun::create(file(), start).value());
    for (int series = 0; series < devices * signals; ++series)
      growing->declare(
          {.signal = "signal" + std::to_string(series % signals), .device = series / signals},
          nullptr);
  }
  void add_second() {
    for (int i = 0; i < 10; ++i, ++tick_)
      for (int series = 0; series < devices * signals; ++series) {
        const auto number = static_cast<size_t>(series);
        const auto jitter = static_cast<int64_t>(
            5e4 * random_normal({.seed = 9, .stream = number / signals}, tick_));
        growing->add(number, Instant(static_cast<int64_t>(tick_) * 100'000'000 + jitter),
                     reading(series % signals, number, tick_, states_[number]));
      }
  }
  void record(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      add_second();
      growing->sync();
    }
  }
  std::optional<run::GrowingRun> growing;

 private:
  std::vector<double> states_;
  uint64_t tick_ = 0;
};

/// A second of values to the disk, folds included.
void keep_a_second(benchmark::State& state) {
  Recording recording;
  for (auto _ : state) {
    state.PauseTiming();
    recording.add_second();
    state.ResumeTiming();
    recording.growing->sync();
  }
}
BENCHMARK(keep_a_second)->Unit(benchmark::kMicrosecond)->Iterations(300);

void finish_an_hour(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    Recording recording;
    recording.record(3600);
    state.ResumeTiming();
    recording.growing->finish(recording.growing->head(), {});
  }
  state.counters["bytes/value"] =
      static_cast<double>(std::filesystem::file_size(file())) / (3600.0 * 10 * devices * signals);
}
BENCHMARK(finish_an_hour)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace triplepoint
