// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::amd {

/// AMD's GPUs of this node, found but not yet opened. `local` counts from 0 in the order of PCI
/// addresses; the caller may move it.
class Node {
 public:
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  Node(Node&&) = delete;
  Node& operator=(Node&&) = delete;
  virtual ~Node() = default;
  virtual std::vector<run::Device>& devices() = 0;
  /// `missing`, if given, gets what the GPUs lack, in the place of the sensor's gaps().
  virtual std::unique_ptr<Sensor> open(const std::vector<bool>& selected,
                                       GapList* missing = nullptr) = 0;
  virtual std::vector<DeviceFacts> facts(const std::vector<bool>& selected) const = 0;
  /// Where dies of a package say the same power: the `local` of the GPU that has it, too.
  virtual std::optional<int32_t> power_is_of(std::size_t gpu) const = 0;
};

/// Looks into sysfs first, where amdgpu shows everything without a library; only where it shows
/// nothing of any GPU, ROCm SMI is asked.
std::unique_ptr<Node> find_devices(const SensorPaths&, std::vector<Gap>& gaps);

/// How opening waits for the half second in which energy counters are compared with power; tests
/// act as the GPU meanwhile.
using Wait = std::function<void(Seconds)>;
std::unique_ptr<Node> find_in_sysfs(const Path& sysfs, Wait wait);
std::unique_ptr<Node> find_by_rocm_smi(const std::string& library, std::vector<Gap>& gaps);

}  // namespace triplepoint::telemetry::amd
