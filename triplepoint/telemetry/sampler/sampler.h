// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

/// Ticks at begin + i * interval. One that is late does not push the next ones.
class TickGrid {
 public:
  TickGrid(int64_t begin_ns, int64_t interval_ns)
      : begin_(begin_ns), interval_(std::max<int64_t>(1, interval_ns)) {}

  int64_t index() const { return index_; }
  int64_t next_ns() const { return begin_ + index_ * interval_; }

  /// To the next tick; of several that are due only the last is kept. Returns how many were lost.
  int64_t advance(int64_t now_ns) {
    const int64_t due = (now_ns - begin_) / interval_;
    const int64_t lost = std::max<int64_t>(0, due - (index_ + 1));
    index_ += 1 + lost;
    return lost;
  }

 private:
  int64_t begin_, interval_, index_ = 0;
};

/// How often a node is looked at.
struct SamplingPlan {
  Seconds interval = 100 * unit::ms;   // between ticks, on an absolute grid
  int slow_every = 10;                 // slow channels: ticks between readings
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
  int64_t lost_samples = 0;    // not taken in time
  double late_s = 0;           // the last tick: how long after its time
  double call_s = 0;           // the last tick: in sensors' calls
  double longest_call_s = 0;   // of one sensor in one tick
  std::string slowest_sensor;  // whose call that was
};

/// Reads all sensors of a node in a separate thread, on ticks of an absolute grid: one that is
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

/// Finds how often a channel really has something new, from readings that come faster than that.
///
/// A sensor that stamps its readings gives the same stamp again until its next update; of one that
/// does not, a change of the value is taken for an update. Known after five updates whose distances
/// agree within the distance of the readings and a half. A value that changes with every reading,
/// or now and then (a temperature), tells nothing.
class UpdatePeriod {
 public:
  /// A reading taken at `read_ns`, with the stamp and value it came with.
  void see(int64_t read_ns, int64_t stamp_ns, double value);
  /// The sensor was asked and had nothing new: as good as the stamp of before once more.
  void see_nothing(int64_t read_ns) { see(read_ns, last_stamp_, last_value_); }
  std::optional<int64_t> found_ns() const;
  bool is_stamped() const { return repeated_stamps_ > 0; }

 private:
  void see_update(int64_t at);

  static constexpr int min_changes = 5;
  int64_t last_read_ = 0, last_stamp_ = 0, last_update_ = 0;
  double last_value_ = 0;
  int64_t longest_wait_ = 0;  // between two readings
  int64_t shortest_ = 0, longest_ = 0, sum_ = 0;
  int64_t readings_ = 0, repeated_stamps_ = 0, updates_ = 0;
};

/// What is read at one tick: the sensors, one after the other, and of their readings those that are
/// new. Knows no clock but the one it is given.
class SensorRound {
 public:
  using Clock = std::function<int64_t()>;
  SensorRound(std::vector<std::unique_ptr<Sensor>> sensors, Clock now);

  const std::vector<run::Device>& devices() const { return devices_; }
  const std::vector<run::SeriesSource>& channels() const { return channels_; }
  std::vector<Gap> gaps() const;

  struct Calls {
    int64_t all_ns = 0, longest_ns = 0;
    size_t slowest = 0;  // sensor
  };
  /// Reads the sensors whose turn it is (all of them if `slow`) and appends what is new.
  Calls read(int64_t tick, bool slow, std::vector<Sample>& samples);
  std::vector<std::string> take_troubles();

  /// How often each sensor is read from now on, in ticks. One whose shortest known period is longer
  /// than two ticks is read at half of that; but at every `longest_ns` at least, and at every tick
  /// if some channel of it may change any time and ticks are what was asked for.
  void set_pace(int64_t tick_ns, int64_t longest_ns);
  /// Of the channels that stamp their readings; 0: none was found.
  int64_t shortest_period_ns() const;
  std::vector<std::optional<Seconds>> periods() const;
  const std::string& sensor_name(size_t sensor) const { return names_[sensor]; }

 private:
  struct ChannelState {
    UpdatePeriod period;
    std::optional<int64_t> found;  // when the pace was set; slower readings would blur it
    int64_t last_stamp = INT64_MIN, last_kept = INT64_MIN;
    bool spoke = false;  // in this reading
  };
  void take(size_t sensor, bool slow, std::vector<Sample>& samples);
  void note_silence(size_t sensor, bool slow, int64_t now);
  size_t end_of(size_t sensor) const;
  void adopt(const Sensor& sensor);

  std::vector<std::unique_ptr<Sensor>> sensors_;
  Clock now_;
  std::vector<std::string> names_;
  std::vector<int32_t> first_channel_;  // of each sensor
  std::vector<int64_t> every_;          // ticks, of each sensor
  std::vector<run::Device> devices_;
  std::vector<run::SeriesSource> channels_;
  std::vector<Pace> paces_;
  std::vector<ChannelState> states_;
  std::vector<Reading> readings_;  // kept, so that reading does not allocate
};

}  // namespace triplepoint::telemetry
