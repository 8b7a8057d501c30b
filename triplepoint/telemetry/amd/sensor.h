// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "triplepoint/telemetry/amd/sysfs_gpu.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::amd {

/// How opening waits for the half second in which energy counters are compared with power; tests
/// act as the GPU meanwhile.
using Wait = std::function<void(Seconds)>;

/// AMD's GPUs of this node as amdgpu shows them in sysfs, which ROCm SMI reads as well; found but
/// not yet opened. `local` counts from 0 in the order of PCI addresses; the caller may move it.
class Node {
 public:
  Node(Path sysfs, Wait wait);

  std::vector<run::Device>& devices() { return devices_; }
  /// `missing` gets what the GPU lacks, in the place of the sensor's gaps().
  std::unique_ptr<Sensor> open(std::size_t gpu, GapList& missing) const;
  DeviceFacts facts(std::size_t gpu) const;

 private:
  SysfsGpu gpu_at(std::size_t gpu) const;

  Path sysfs_;
  Wait wait_;
  std::vector<SysfsGpu> gpus_;
  std::vector<run::Device> devices_;
};

/// None at all is a gap.
std::unique_ptr<Node> find_devices(const SensorPaths&, std::vector<Gap>& gaps);

}  // namespace triplepoint::telemetry::amd
