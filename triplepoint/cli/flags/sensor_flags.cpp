// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/sensor_flags.h"

#include "triplepoint/base/list_text.h"

namespace triplepoint::cli {

Arguments SensorFlags::arguments() {
  return Arguments()
      .group("Sensors")
      .flag("--devices", "LIST",
            "only these GPUs: numbers, ranges, UUIDs or PCI addresses, as 0,2-3; or none",
            into(devices_, split_list))
      .toggle("--gpm",
              "also read the performance counters of Hopper and newer (conflicts with profilers)",
              gpm_)
      .flag("--node-power-command", "COMMAND",
            "command that prints the node's power in W; run every 5 s", into(node_power_command_));
}

telemetry::SensorOptions SensorFlags::options() const {
  telemetry::SensorOptions options;
  options.devices = devices_;
  options.gpm = gpm_;
  options.node_power_command = node_power_command_.value_or("");
  return options;
}

}  // namespace triplepoint::cli
