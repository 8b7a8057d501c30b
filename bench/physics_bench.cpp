// SPDX-License-Identifier: Apache-2.0
// Heat, power and clock: what one device or chassis costs, and 100,000 GPUs at once.
#include <vector>

#include <benchmark/benchmark.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/power.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint {
namespace {

const spec::Cluster& node() {
  static const spec::Cluster cluster =
      spec::load_cluster(spec::default_library(), "hgx-h200").value();
  return cluster;
}

thermal::ChassisModel chassis() {
  return thermal::ChassisModel(node().chassis, *node().gpu.thermal, 1, 0.8);
}

spec::GpuLoad second_of_products() {
  spec::GpuLoad load;
  load.duration = load.computing = 1 * unit::s;
  load.flops[0] = 770 * unit::TFLOP;
  load.hbm_bytes = 400 * unit::GB;
  return load;
}

void build_a_chassis(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(chassis());
}
BENCHMARK(build_a_chassis)->Unit(benchmark::kMicrosecond);

void prepare_a_duration(benchmark::State& state) {
  const thermal::ChassisModel model = chassis();
  for (auto _ : state)
    benchmark::DoNotOptimize(model.prepare(30 * unit::s));
}
BENCHMARK(prepare_a_duration)->Unit(benchmark::kMicrosecond);

/// Chassis of 8 GPUs that share one propagator; items are GPUs.
void advance_many_gpus(benchmark::State& state) {
  const thermal::ChassisModel model = chassis();
  const thermal::Propagator step = model.prepare(1 * unit::s);
  const auto count = static_cast<size_t>(state.range(0) / model.slots());
  std::vector<double> states(count * static_cast<size_t>(model.state_size()), 40.0);
  const std::vector<Watts> power(count * static_cast<size_t>(model.slots()), 600 * unit::W);
  const std::vector<Celsius> inlet(count, Celsius(25));
  for (auto _ : state) {
    model.advance_many(step, states, power, inlet);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(advance_many_gpus)->Arg(1'024)->Arg(100'000)->Unit(benchmark::kMillisecond);

void choose_a_capped_clock(benchmark::State& state) {
  const spec::Gpu& gpu = node().gpu;
  const spec::GpuLoad load = second_of_products();
  const auto power_at = [&](double ratio) {
    return power::gpu_power(*gpu.power, load, ratio, Celsius(65), {});
  };
  for (auto _ : state)
    benchmark::DoNotOptimize(
        clock::choose_clock(*gpu.governor, *gpu.max_clock, 700 * unit::W, power_at));
}
BENCHMARK(choose_a_capped_clock);

void periodic_peak_of_a_step(benchmark::State& state) {
  const thermal::ChassisModel model = chassis();
  std::vector<thermal::PowerStretch> step;
  for (int i = 0; i < 256; ++i)
    step.push_back({.duration = 50 * unit::ms, .power = (i % 2 == 0 ? 690 : 200) * unit::W});
  for (auto _ : state)
    benchmark::DoNotOptimize(model.periodic_peak_rise(0, step));
}
BENCHMARK(periodic_peak_of_a_step)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace triplepoint
