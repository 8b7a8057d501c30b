// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "triplepoint/telemetry/nvml/api.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::nvml {

/// A GPU of the driver, not yet opened. `local`: its number in the driver.
struct Listed {
  Handle handle = nullptr;
  run::Device device;
};
/// `gaps`, if given, gets those that the driver counts but does not hand out.
std::vector<Listed> list_devices(const Driver&, std::vector<Gap>* gaps = nullptr);

DeviceFacts device_facts(const Driver&, const Listed&);
/// Driver and CUDA version, into the node's facts.
void driver_facts(const Driver&, NodeFacts&);

/// Reads these GPUs. One that falls off the bus is said once and asked for again after 1, 2, 4 ...
/// 60 s, by its UUID; where the driver was reset, all of it is begun anew.
std::unique_ptr<Sensor> make_sensor(std::unique_ptr<Driver>, std::vector<Listed>, bool gpm);

/// "0000:1b:00.0", as sysfs writes it, of NVML's "00000000:1B:00.0".
std::string plain_pci(std::string_view bus_id);

}  // namespace triplepoint::telemetry::nvml
