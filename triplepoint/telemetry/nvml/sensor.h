// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "triplepoint/telemetry/nvml/api.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::nvml {

/// A GPU of the driver, not yet opened. `local`: its number in the driver.
struct Listed {
  Handle handle = nullptr;
  run::Device device;
};
int32_t num_devices(const Driver&);
/// Nothing, and a gap, for a number that the driver counts but does not hand out.
std::optional<Listed> list_device(const Driver&, int32_t number, std::vector<Gap>& gaps);

DeviceFacts device_facts(const Driver&, const Listed&);
/// Driver and CUDA version, into the node's facts.
void driver_facts(const Driver&, NodeFacts&);

/// Reads this GPU. One that falls off the bus is said once and asked for again after 1, 2, 4 ...
/// 60 s, by its UUID; where the driver was reset, all of it is begun anew. Sensors share a driver.
/// `missing` gets what the GPU lacks, in the place of the sensor's gaps().
std::unique_ptr<Sensor> make_sensor(std::shared_ptr<Driver>, const Listed&, bool gpm,
                                    GapList& missing);

/// "0000:1b:00.0", as sysfs writes it, of NVML's "00000000:1B:00.0".
std::string plain_pci(std::string_view bus_id);

}  // namespace triplepoint::telemetry::nvml
