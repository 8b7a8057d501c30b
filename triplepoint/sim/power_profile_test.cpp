// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/power_profile.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"

namespace triplepoint::sim {
namespace {

std::vector<DeviceStep> peaks_at(StepModel& model, double degrees) {
  std::vector<DeviceStep> devices(model.num_devices());
  add_peaks(model, std::vector<Celsius>(devices.size(), Celsius(degrees)), devices);
  return devices;
}

TEST_CASE("a peak is not below the power of any phase at its clock, nor a sensor's above it") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    StepModel model(random_training_job(seed));
    const std::vector<DeviceStep> peaks = peaks_at(model, 60);
    const ClockState clocks = choose_clocks(model, std::vector<Celsius>(peaks.size(), Celsius(60)));
    for (size_t d = 0; d < peaks.size(); ++d) {
      CHECK(peaks[d].sensor_peak > Watts());
      CHECK(peaks[d].instant_peak >= peaks[d].sensor_peak * (1 - 1e-9));
      for (const DevicePhase& phase : clocks.devices[d])
        CHECK(peaks[d].instant_peak >= phase.power * (1 - 1e-9));
    }
  }
}

TEST_CASE("a hotter die peaks higher, and so does a board that switches more") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    StepModel model(random_training_job(seed));
    const std::vector<DeviceStep> cold = peaks_at(model, 45), hot = peaks_at(model, 75);
    for (size_t d = 0; d < cold.size(); ++d)
      CHECK(hot[d].instant_peak > cold[d].instant_peak);
    model.hardware.boards[0].dynamic_energy *= 1.1;
    const std::vector<DeviceStep> odd = peaks_at(model, 45);
    CHECK(odd[0].instant_peak > cold[0].instant_peak);
    for (size_t d = 1; d < cold.size(); ++d)
      CHECK(odd[d].instant_peak == cold[d].instant_peak);
  }
}

TEST_CASE("the clocks and the power limit do not enter a peak: the governor has not reacted yet") {
  StepModel model(random_training_job(2));
  const std::vector<DeviceStep> before = peaks_at(model, 60);
  Conditions tight = model.conditions();
  for (Watts& limit : tight.power_limit)
    limit *= 0.5;
  model.set_conditions(tight);
  const std::vector<DeviceStep> after = peaks_at(model, 60);
  for (size_t d = 0; d < before.size(); ++d) {
    CHECK(after[d].sensor_peak == before[d].sensor_peak);
    CHECK(after[d].instant_peak == before[d].instant_peak);
  }
}

}  // namespace
}  // namespace triplepoint::sim
