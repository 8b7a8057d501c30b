// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"
#include "triplepoint/sim/record.h"

namespace triplepoint::sim {
namespace {

PowerPeaks peaks_at(StepModel& model, double degrees) {
  return find_peaks(model,
                    step_at(model, std::vector<Celsius>(model.num_devices(), Celsius(degrees))));
}

TEST_CASE("a peak is not below the power of any phase at its clock, nor a sensor's above it") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    StepModel model(random_training_job(seed));
    const PowerPeaks peaks = peaks_at(model, 60);
    const ClockState clocks =
        choose_clocks(model, std::vector<Celsius>(model.num_devices(), Celsius(60)));
    for (size_t d = 0; d < model.num_devices(); ++d) {
      CHECK(peaks.sensor[d] > Watts());
      CHECK(peaks.kernel[d] >= peaks.sensor[d] * (1 - 1e-9));
      for (const DevicePhase& phase : clocks.devices[d])
        CHECK(peaks.kernel[d] >= phase.power * (1 - 1e-9));
    }
  }
}

TEST_CASE("one of all sensors shows at least what the highest one usually shows, and no kernel's") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    StepModel model(random_training_job(seed));
    const PowerPeaks peaks = peaks_at(model, 60);
    CHECK(peaks.highest >= std::ranges::max(peaks.sensor));
    CHECK(peaks.highest <= std::ranges::max(peaks.kernel) * (1 + 1e-9));
  }
}

TEST_CASE("where a profiler records one step, sensors see less of it than of ten") {
  bool lower = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    spec::Job job = random_training_job(seed);
    StepModel ten(job);
    job.stack.profiled = true;
    StepModel one(job);
    const PowerPeaks of_ten = peaks_at(ten, 60), of_one = peaks_at(one, 60);
    for (size_t d = 0; d < ten.num_devices(); ++d) {
      CHECK(of_one.sensor[d] <= of_ten.sensor[d]);
      lower = lower || of_one.sensor[d] < of_ten.sensor[d];
    }
  }
  CHECK(lower);
}

TEST_CASE("a sensor shows at least the mean of a step, shorter or longer than its window") {
  // Steps of 10 to 20 ms; and one of which most is launches, which draw less than waiting for the
  // slowest host does.
  struct Decode {
    const char* stack;
    int64_t sequences, batch, nodes;
  };
  for (const Decode& each : {Decode{"vllm", 32, 32, 1}, Decode{"vllm", 64, 64, 1},
                             Decode{"vllm", 128, 128, 1}, Decode{"nemo-profiled", 1, 132, 3}}) {
    const spec::Job job = spec::job_of_text(
        fmt::format("model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = {}\nstack = \"{}\"\n"
                    "task = \"decode\"\n[plan]\ntensor_parallel_size = 8\n"
                    "micro_batch_size = {}\nglobal_batch_size = {}\n",
                    each.nodes, each.stack, each.sequences, each.batch));
    StepModel model(job);
    const CoupledStep step = step_at(model, std::vector<Celsius>(model.num_devices(), Celsius(60)));
    const PowerPeaks peaks = find_peaks(model, step);
    for (size_t d = 0; d < model.num_devices(); ++d)
      CHECK(peaks.sensor[d] >= step.accounted.devices[d].mean_power);
  }
}

TEST_CASE("a hotter die peaks higher, and so does a board that switches more") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    StepModel model(random_training_job(seed));
    const PowerPeaks cold = peaks_at(model, 45), hot = peaks_at(model, 75);
    for (size_t d = 0; d < model.num_devices(); ++d)
      CHECK(hot.kernel[d] > cold.kernel[d]);
    model.hardware.boards[0].dynamic_energy *= 1.1;
    const PowerPeaks odd = peaks_at(model, 45);
    CHECK(odd.kernel[0] > cold.kernel[0]);
    for (size_t d = 1; d < model.num_devices(); ++d)
      CHECK(odd.kernel[d] == cold.kernel[d]);
  }
}

TEST_CASE("a lower power limit does not raise what the sensor shows, nor change single kernels") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    StepModel model(random_training_job(seed));
    PowerPeaks before = peaks_at(model, 60);
    for (int cut = 0; cut < 4; ++cut) {
      Conditions tight = model.conditions();
      for (Watts& limit : tight.power_limit)
        limit *= 0.85;
      model.set_conditions(tight);
      const PowerPeaks after = peaks_at(model, 60);
      for (size_t d = 0; d < model.num_devices(); ++d) {
        CAPTURE(seed);
        CAPTURE(cut);
        CHECK(after.sensor[d] <= before.sensor[d] * 1.01);
        CHECK(after.kernel[d] == before.kernel[d]);
      }
      before = after;
    }
  }
}

}  // namespace
}  // namespace triplepoint::sim
