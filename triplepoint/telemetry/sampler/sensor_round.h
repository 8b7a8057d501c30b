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

/// What is read of a sensor at one tick: of its readings those that are new. Knows no clock but the
/// one it is given.
class SensorRound {
 public:
  using Clock = std::function<int64_t()>;
  SensorRound(std::unique_ptr<Sensor> sensor, Clock now);

  /// As the sensor has them; they stay when it is closed.
  const std::vector<run::SeriesSource>& channels() const { return channels_; }
  const std::string& name() const { return name_; }

  /// Reads it if it is its turn (always if `slow`), and appends what is new; how long that took.
  int64_t read(int64_t tick, bool slow, std::vector<Sample>& samples);
  std::vector<std::string> take_troubles() { return sensor_->take_troubles(); }
  std::vector<DeviceProcess> processes() { return sensor_->processes(); }
  /// Destroys the sensor.
  void close() { sensor_.reset(); }

  /// How often it is read from now on, in ticks. One whose shortest known period is longer than two
  /// ticks is read at half of that; but at every `longest_ns` at least, and at every tick if some
  /// channel of it may change any time and ticks are what was asked for.
  void set_interval(int64_t tick_ns, int64_t longest_ns);
  /// Of the channels that stamp their readings; 0: none was found.
  int64_t shortest_period_ns() const;
  std::vector<std::optional<Seconds>> periods() const;

 private:
  struct ChannelState {
    Polling polling = Polling::every_tick;
    UpdatePeriod period;
    std::optional<int64_t> found;  // when the interval was set; slower readings would blur it
    int64_t last_stamp = INT64_MIN, last_kept = INT64_MIN;
    bool spoke = false;  // in this reading
  };
  void take(bool slow, std::vector<Sample>& samples);
  void note_silence(bool slow, int64_t now);

  std::unique_ptr<Sensor> sensor_;
  Clock now_;
  std::string name_;
  int64_t every_ = 1;  // ticks
  std::vector<run::SeriesSource> channels_;
  std::vector<ChannelState> states_;
  std::vector<Reading> readings_;  // kept, so that reading does not allocate
};

}  // namespace triplepoint::telemetry
