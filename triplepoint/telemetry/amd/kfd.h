// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/telemetry/open_sensors.h"

namespace triplepoint::telemetry::amd {

/// Architecture and xGMI links of the GPU with this PCI address, as the compute driver's topology
/// (/sys/class/kfd/kfd/topology/nodes) has them.
void add_kfd_facts(const Path& nodes, DeviceFacts& facts);

}  // namespace triplepoint::telemetry::amd
