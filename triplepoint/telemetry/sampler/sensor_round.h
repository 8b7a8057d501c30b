// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// One reading of one of Sampler::channels().
struct Sample {
  int32_t channel = 0;
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  double value = 0;
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

  struct Calls {
    int64_t all_ns = 0, longest_ns = 0;
    size_t slowest = 0;  // sensor
  };
  /// Reads the sensors whose turn it is (all of them if `slow`) and appends what is new.
  Calls read(int64_t tick, bool slow, std::vector<Sample>& samples);
  std::vector<std::string> take_troubles();
  /// Of all sensors; `device` counts as in devices().
  std::vector<DeviceProcess> processes();
  /// Destroys the sensors; what is known of them stays.
  void close() { sensors_.clear(); }

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
