// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/phase_windows.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

spec::GpuLoad products(double milliseconds, double teraflops) {
  spec::GpuLoad load;
  load.duration = load.computing = milliseconds * unit::ms;
  load.flops[static_cast<size_t>(spec::OpClass::gemm)] = teraflops * unit::TFLOP;
  return load;
}

TEST_CASE("a phase as a row has the phase's length and work") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    StepModel model(random_training_job(seed));
    for (PhaseTable& table : model.tables()) {
      const PhasePoint whole = table.at(0, 1.3);
      const Row row = row_of(table, 0, 1.3, 10 * unit::s);
      const spec::GpuLoad sum = part_of(row, Seconds(), 2 * whole.duration);
      CHECK(length_of(row) / whole.duration == Approx(1));
      CHECK(sum.hbm_bytes / whole.load.hbm_bytes == Approx(1));
      for (size_t i = 0; i < sum.flops.size(); ++i)
        CHECK(sum.flops[i] / unit::TFLOP == Approx(whole.load.flops[i] / unit::TFLOP));
    }
  }
}

TEST_CASE("what a window shorter than the kept layers sees does not depend on how many are kept") {
  StepModel model(random_training_job(3));
  PhaseTable& table = model.tables().front();
  const BoardRange range{0.95, 1.05};
  const Seconds window = 0.1 * table.at(0, 1).duration;
  const auto highest = [&](Seconds kept) {
    return hungriest_windows(model.power(), row_of(table, 0, 1, kept), range, 1, window);
  };
  const auto some = highest(window), all = highest(10 * unit::s);
  for (size_t i = 0; i < some.size(); ++i)
    CHECK(power::gpu_power(model.power(), some[i], 1, Celsius(60), {}) / unit::W ==
          Approx(power::gpu_power(model.power(), all[i], 1, Celsius(60), {}) / unit::W));
}

TEST_CASE("the hungriest window is the highest of all, and covers what fits") {
  const StepModel model(random_training_job(1));
  const Row row = {products(10, 2), products(4, 3), products(6, 4), products(10, 1)};
  const auto power_of = [&](const spec::GpuLoad& load) {
    return power::gpu_power(model.power(), load, 1, Celsius(60), {});
  };
  for (const double milliseconds : {1.0, 5.0, 9.0, 17.0, 29.9}) {
    const Seconds window = milliseconds * unit::ms;
    const spec::GpuLoad found = hungriest_windows(model.power(), row, {1, 1}, 1, window).front();
    CHECK(found.duration / unit::ms == Approx(milliseconds));
    for (Seconds begin; begin + window <= length_of(row); begin += 0.05 * unit::ms)
      CHECK(power_of(part_of(row, begin, window)) <= power_of(found) + 1e-6 * unit::W);
  }
}

}  // namespace
}  // namespace triplepoint::sim
