// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/sensor_flags.h"

#include "triplepoint/base/list_text.h"

namespace triplepoint::cli {

std::vector<Argument> SensorFlags::arguments() {
  return {
      {.names = "--devices",
       .value = "LIST",
       .help = "only these GPUs: numbers, ranges, UUIDs or PCI addresses, as 0,2-3; or none",
       .group = "Sensors",
       .store = [this](std::string_view text) -> Result<void> {
         devices_ = TPT_TRY(split_list(text));
         return {};
       }},
      {.names = "--gpm",
       .help = "also read the performance counters of Hopper and newer (conflicts with profilers)",
       .group = "Sensors",
       .store = into_switch(gpm_)},
      {.names = "--node-power-command",
       .value = "COMMAND",
       .help = "command that prints the node's power in W; run every 5 s",
       .group = "Sensors",
       .store = into(node_power_command_)}};
}

telemetry::SensorOptions SensorFlags::options() const {
  telemetry::SensorOptions options;
  options.devices = devices_;
  options.gpm = gpm_;
  options.node_power_command = node_power_command_.value_or("");
  return options;
}

}  // namespace triplepoint::cli
