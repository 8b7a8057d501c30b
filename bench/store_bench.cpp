// SPDX-License-Identifier: Apache-2.0
// What keeping a recording costs: 8 GPUs, 24 signals, 10 Hz, ten minutes, as a sensor shows them.
#include <cmath>
#include <filesystem>

#include <benchmark/benchmark.h>

#include "triplepoint/base/random.h"

#include "triplepoint/store/store.h"

namespace triplepoint {
namespace {

constexpr size_t samples = 6000;
constexpr int signals = 24;

/// Signals in turn: power in mW steps, whole degrees, clock steps, counters, bit sets, shares.
double reading(int signal, size_t i, RandomKey key, double& state) {
  const double noise = random_normal(key, i);
  switch (signal % 6) {
    case 0:
      return std::round((600 + 60 * std::sin(static_cast<double>(i) / 40) + 15 * noise) * 1000) /
             1000;
    case 1:
      return std::round(state += 0.1 * noise + (60 - state) * 0.01);
    case 2:
      return 1980 - 15 * std::floor(6 * random_uniform(key, i));
    case 3:
      return state += std::round(60000 + 1500 * noise);
    case 4:
      return random_uniform(key, i) < 0.02 ? 0 : 4;
    default:
      return std::round(50 + 20 * noise) / 100;
  }
}

run::Run recording() {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  for (int32_t device = 0; device < 8; ++device)
    for (int signal = 0; signal < signals; ++signal) {
      const RandomKey key{.seed = static_cast<uint64_t>(device),
                          .stream = static_cast<uint64_t>(signal)};
      run::Series series{.signal = "signal" + std::to_string(signal), .device = device};
      double state = 40;
      for (size_t i = 0; i < samples; ++i) {
        const double jitter =
            2e5 * random_normal({.seed = 9, .stream = static_cast<uint64_t>(device)}, i);
        series.times.emplace_back(static_cast<int64_t>(i) * 100'000'000 +
                                  static_cast<int64_t>(jitter));
        series.values.push_back(reading(signal, i, key, state));
      }
      run.series.push_back(std::move(series));
    }
  return run;
}

constexpr double num_values = 8.0 * signals * samples;

void count_values(benchmark::State& state) {
  state.counters["values/s"] =
      benchmark::Counter(num_values, benchmark::Counter::kIsIterationInvariantRate);
}

std::string file() {
  return (std::filesystem::temp_directory_path() / "triplepoint_bench.run").string();
}

void encode(benchmark::State& state) {
  const run::Run run = recording();
  size_t bytes = 0;
  for (auto _ : state)
    bytes = run::to_bytes(run).value().size();
  count_values(state);
  state.counters["bytes/value"] = static_cast<double>(bytes) / num_values;
}
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

void save(benchmark::State& state) {
  const run::Run run = recording();
  for (auto _ : state)
    run::save(run, file()).value();
  count_values(state);
}
BENCHMARK(save)->Unit(benchmark::kMillisecond);

void load(benchmark::State& state) {
  run::save(recording(), file()).value();
  for (auto _ : state)
    benchmark::DoNotOptimize(run::load(file()).value());
  count_values(state);
}
BENCHMARK(load)->Unit(benchmark::kMillisecond);

/// Count, minimum, maximum and mean of every series, from the chunks' headers.
void peek(benchmark::State& state) {
  run::save(recording(), file()).value();
  for (auto _ : state)
    benchmark::DoNotOptimize(run::peek(file()).value());
  std::filesystem::remove(file());
}
BENCHMARK(peek)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace triplepoint
