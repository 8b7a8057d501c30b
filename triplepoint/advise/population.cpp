// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/population.h"

#include <algorithm>
#include <utility>

#include "triplepoint/base/statistics.h"

namespace triplepoint::advise {

bool has_spread(const spec::Job& job) {
  return job.cluster.gpu.variability != spec::Variability{} || job.cluster.host.speed_spread > 0 ||
         job.chassis().inlet_spread > Kelvins();
}

std::vector<spec::Job> drawn_machines(const spec::Job& job, int64_t count) {
  if (!has_spread(job)) return {job};
  std::vector<spec::Job> machines(static_cast<size_t>(count), job);
  for (size_t i = 0; i < machines.size(); ++i)
    machines[i].environment.seed = i + 1;
  return machines;
}

spec::Job on_expected_machine(spec::Job job) {
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.chassis.inlet_spread = Kelvins();
  if (job.cluster.liquid_chassis) job.cluster.liquid_chassis->inlet_spread = Kelvins();
  return job;
}

spec::Job with_equal_slots(spec::Job job) {
  const auto level = [](spec::Chassis& chassis) {
    for (spec::Slot& slot : chassis.slots)
      slot = {.inlet_offset = Kelvins(), .resistance_factor = 1, .upstream_heating = {}};
  };
  level(job.cluster.chassis);
  if (job.cluster.liquid_chassis) level(*job.cluster.liquid_chassis);
  std::erase_if(job.environment.faults,
                [](const spec::Fault& fault) { return fault.kind == spec::FaultKind::heat_path; });
  return job;
}

spec::Job with_fine_clocks(spec::Job job) {
  constexpr double parts = 8;
  if (!job.cluster.gpu.governor) return job;
  job.cluster.gpu.governor->clock_step /= parts;
  job.cluster.gpu.governor->thermal_steps_per_kelvin *= parts;
  return job;
}

MachineGains summarize_gains(const std::vector<double>& gains) {
  MachineGains summary;
  if (gains.empty()) return summary;
  summary.machines = static_cast<int64_t>(gains.size());
  summary.mean = mean(gains);
  summary.worst = *std::min_element(gains.begin(), gains.end());
  summary.gaining = std::count_if(gains.begin(), gains.end(), [](double gain) { return gain > 0; });
  return summary;
}

}  // namespace triplepoint::advise
