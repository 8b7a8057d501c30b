// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/sampler/sampling_plan.h"
#include "triplepoint/telemetry/sampler/sensor_round.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

struct SamplerState;
struct SensorThread;

/// Reads the sensors of a node, each on a separate thread, on ticks of an absolute grid: one that
/// is late does not push the next ones. A reading with the stamp of the one before is dropped. The
/// first second of a sensor is spent on finding the period at which each channel really changes; a
/// sensor all of whose channels are slower than the ticks is then read at half of its period.
///
/// A call that does not return holds up its own sensor alone; one more thread watches them, and
/// says so. No member of this class waits for such a call; after stop() its thread holds nothing
/// but shared state (system/process.h).
///
/// The four series of the sampler itself (sampler_cpu_s, sampler_late_s, sampler_lost_ticks,
/// sampler_call_s) are channels as well, of the node.
class Sampler {
 public:
  Sampler(std::vector<std::unique_ptr<Sensor>> sensors, SamplingPlan plan);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();  // stops

  /// Of all sensors, one after the other; `index` counts through.
  const std::vector<run::Device>& devices() const;
  /// Of all sensors; `device` counts as in devices().
  const std::vector<run::SeriesSource>& channels() const;
  const std::vector<Gap>& gaps() const;

  /// Sensors that were opened later: read from now on; devices, channels and gaps are appended.
  /// `silent` are devices without a sensor so far; one that is opened later keeps its index. By the
  /// thread that takes.
  void add(std::vector<std::unique_ptr<Sensor>> sensors,
           const std::vector<run::Device>& silent = {});

  /// Instead of start(): reads everything now, appends what is new. Sensors that do not answer
  /// within some tenths of a second are left out.
  void read_now(bool slow, std::vector<Sample>& samples);

  void start();
  /// After one more reading of all that answer; within a second. What was read can still be taken.
  void stop();
  /// Appends what was read since the last call. By one thread.
  void take(std::vector<Sample>& samples);

  /// Update periods as found so far, else as the maker states them; in the order of channels().
  std::vector<std::optional<Seconds>> periods() const;
  SamplerCost cost() const;
  /// What went wrong since the last call, a sentence each.
  std::vector<std::string> take_troubles();
  /// Processes that were last seen on each GPU, by index in devices(); for SamplingPlan's
  /// list_processes.
  std::map<int32_t, std::vector<int64_t>> processes() const;

 private:
  std::shared_ptr<SamplerState> state_;
  std::vector<std::shared_ptr<SensorThread>> threads_;  // until the start
};

}  // namespace triplepoint::telemetry
