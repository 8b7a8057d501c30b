// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/telemetry/recorder/launch_environment.h"
#include "triplepoint/telemetry/sampler/sampler.h"

namespace triplepoint::telemetry {

/// Channels that are the same on several devices: "power_instant_w of 8 GPUs".
struct Measurable {
  run::SeriesSource about;  // of the first; its period is the stated one
  int32_t devices = 0;      // 0: it is about the node
  int32_t channels = 0, answering = 0;
  std::optional<Seconds> seen_period;  // the median of those at which values changed
  std::optional<double> example;       // the last value of the first that answered
};

/// Something worth knowing about this machine: what is wrong, or what one may trip over.
struct Finding {
  enum class Weight { note, warning };
  Weight weight = Weight::note;
  std::string what, why, remedy;  // the remedy is a command where there is one
  bool is_warning() const { return weight == Weight::warning; }
};

/// What a look at the machine found.
struct Examination {
  NodeFacts node;
  std::vector<DeviceFacts> devices;
  std::vector<Measurable> measurable;
  std::vector<Gap> gaps;
  std::vector<Finding> findings;
  SamplerCost cost;
  double looked_s = 0;
  double cpu_share() const { return looked_s > 0 ? cost.cpu_s / looked_s : 0; }
};

/// Opens nothing itself: reads `sensors` for so long, as the recorder would, and looks at the
/// environment below `paths`.
Examination examine(Sensors sensors, const SensorPaths& paths, const Variable& variable,
                    Seconds look);

/// What the environment says: containers, visible devices, launchers, permissions, clocks.
std::vector<Finding> environment_findings(const SensorPaths& paths, const Variable& variable,
                                          const std::vector<DeviceFacts>& devices);

}  // namespace triplepoint::telemetry
