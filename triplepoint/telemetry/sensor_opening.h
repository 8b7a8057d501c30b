// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

struct OpeningState;

/// Opens a node's sensors on separate threads (system/process.h): drivers, every GPU, /proc,
/// networks, board sensors with node power. None of them waits for another, and no member of this
/// class for a call that does not return.
class SensorOpening {
 public:
  explicit SensorOpening(const SensorOptions& options);
  SensorOpening(const SensorOpening&) = delete;
  SensorOpening& operator=(const SensorOpening&) = delete;
  ~SensorOpening();

  /// What has become ready since the last call, GPUs first. A GPU that was listed but has not
  /// answered for some seconds comes as a device without a sensor, and with it when it answers.
  std::vector<Sensors> take();
  bool is_complete() const;
  /// Until all is open; at most so long, and no longer than until `stopped` says so.
  void wait(Seconds most, const std::function<bool()>& stopped) const;
  /// A word in SensorOptions::devices that no GPU answers to; known once the GPUs are listed.
  std::optional<Error> unknown_device() const;
  /// Until the GPUs are listed.
  void wait_for_list(Seconds most, const std::function<bool()>& stopped) const;
  /// What does not answer, and since when.
  std::vector<Gap> outstanding() const;

 private:
  std::shared_ptr<OpeningState> state_;
};

/// Opens what is there. A machine without any sensor still has /proc. The only error is a word in
/// `devices` that no GPU answers to. What has not answered after ten seconds, or when the program
/// is interrupted, is left out; Sensors::opening then has it as soon as it answers.
Result<Sensors> open_sensors(const SensorOptions&);

}  // namespace triplepoint::telemetry
