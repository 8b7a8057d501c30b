// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

/// How often a node is looked at.
struct SamplingPlan {
  Seconds interval = 100 * unit::ms;   // between ticks, on an absolute grid
  int slow_every = 10;                 // slow channels: every so many ticks
  Seconds probe = 1500 * unit::ms;     // at the start, in which update periods are found; 0: none
  Seconds probe_tick = 10 * unit::ms;  // ticks while probing
  /// Faster than `interval` if a sensor's updates are: ticks of half of its period, not below
  /// `shortest_tick`, as long as that costs at most `most_cpu` of a core.
  bool follow_sensors = false;
  Seconds shortest_tick = 20 * unit::ms;
  double most_cpu = 0.008;
  size_t most_waiting = 1U << 16U;  // samples kept for take(); later ones are lost, and counted
};

/// One reading of one of Sampler::channels().
struct Sample {
  int32_t channel = 0;
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  double value = 0;
};

/// What sampling itself costs and how well it keeps its time. Since start().
struct SamplerCost {
  double cpu_s = 0;            // of the sampling thread
  int64_t ticks = 0;           // that were kept
  int64_t lost_ticks = 0;      // of the grid, passed while a call, the scheduler or a stop held us
  int64_t lost_samples = 0;    // nobody took them in time
  double late_s = 0;           // the last tick: how long after its time
  double call_s = 0;           // the last tick: in sensors' calls
  double longest_call_s = 0;   // of one sensor in one tick
  std::string slowest_sensor;  // whose call that was
};

/// Reads all sensors of a node in one thread of its own, on ticks of an absolute grid: one that is
/// late does not push the next ones. A reading with the stamp of the one before is dropped. The
/// first second is spent on finding the period at which each channel really changes; a sensor all
/// of whose channels are slower than the ticks is then read at half of its period.
///
/// The four series of the sampler itself (sampler_cpu_s, sampler_late_s, sampler_lost_ticks,
/// sampler_call_s) are channels as well, of the node.
class Sampler {
 public:
  Sampler(std::vector<std::unique_ptr<Sensor>> sensors, SamplingPlan plan);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  Sampler(Sampler&&) = delete;
  Sampler& operator=(Sampler&&) = delete;
  ~Sampler();  // stops

  /// Of all sensors, one after the other; `index` counts through.
  const std::vector<run::Device>& devices() const;
  /// Of all sensors; `device` counts as in devices().
  const std::vector<run::SeriesSource>& channels() const;
  std::vector<Gap> gaps() const;

  /// Without the thread: reads everything now, appends what is new. Only while not started.
  void read_now(bool slow, std::vector<Sample>& samples);

  void start();
  void stop();
  /// Appends what was read since the last call. By one thread.
  void take(std::vector<Sample>& samples);

  /// Update periods as found so far, else as the maker states them; in the order of channels().
  std::vector<std::optional<Seconds>> periods() const;
  SamplerCost cost() const;
  /// What went wrong since the last call, a sentence each.
  std::vector<std::string> take_troubles();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace triplepoint::telemetry
