// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/telemetry/open_sensors.h"

namespace triplepoint::cli {

/// The flags that say what is measured: --devices, --gpm, --node-power-command.
class SensorFlags {
 public:
  Arguments arguments();
  telemetry::SensorOptions options() const;

 private:
  std::vector<std::string> devices_;
  std::optional<std::string> node_power_command_;
  bool gpm_ = false;
};

}  // namespace triplepoint::cli
