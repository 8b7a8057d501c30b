// SPDX-License-Identifier: Apache-2.0
// Heat of 100,000 GPUs at once.
#include <vector>

#include <benchmark/benchmark.h>

#include "triplepoint/spec/load.h"

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

}  // namespace
}  // namespace triplepoint
