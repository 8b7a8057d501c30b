// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// How often to read a channel: every tick, or every tenth (limits, memory in use, fans).
enum class Pace : uint8_t { every_tick, slow };

/// One number that a sensor can read: what it means stands in `about`, as the run keeps it.
struct Channel {
  run::SeriesSource about;
  Pace pace = Pace::every_tick;
};

/// A value and when it was true. Counters count from the first reading of the channel (0), in the
/// unit of the signal's name; wraps of the hardware's counter are already taken out. A sentinel,
/// "not supported", or a reading that failed is no reading: absent is not zero.
struct Reading {
  int32_t channel = 0;  // index into Sensor::channels()
  int64_t time_ns =
      0;  // CLOCK_MONOTONIC; the sensor's own stamp where it has one, else of the call
  double value = 0;
};

/// What cannot be measured here, why, and what would help. `doctor` prints it, a run notes it.
struct Gap {
  std::string what, why,
      remedy;  // "GPU energy counter"; "driver 450 lacks it"; "" if nothing helps
};

/// A source of readings on this node: NVML, amdgpu's sysfs, powercap, /proc ... Opened at run time.
/// Never blocks for longer than a call into the driver takes, never throws, allocates nothing in
/// read() once warm. Used by one thread.
class Sensor {
 public:
  Sensor() = default;
  Sensor(const Sensor&) = delete;
  Sensor(Sensor&&) = delete;
  Sensor& operator=(const Sensor&) = delete;
  Sensor& operator=(Sensor&&) = delete;
  virtual ~Sensor() = default;

  virtual std::string_view name() const = 0;  // "nvml"
  /// GPUs this sensor sees, `index` counting from 0 inside the sensor. None: it is about the node.
  virtual const std::vector<run::Device>& devices() const = 0;
  /// All it can read; fixed after opening. `about.device` is the index inside the sensor.
  virtual const std::vector<Channel>& channels() const = 0;
  virtual const std::vector<Gap>& gaps() const = 0;
  /// Appends what there is to read now: channels of every tick, and the slow ones if `slow`.
  virtual void read(bool slow, std::vector<Reading>& readings) = 0;
  /// What went wrong since the last call, a sentence each: a GPU fell off the bus, a reset.
  virtual std::vector<std::string> take_troubles() { return {}; }
};

/// Now on the clock of readings and marks: CLOCK_MONOTONIC, ns.
int64_t monotonic_now_ns();

}  // namespace triplepoint::telemetry
