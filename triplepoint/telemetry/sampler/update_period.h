// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace triplepoint::telemetry {

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

  static constexpr int enough = 5;
  int64_t last_read_ = 0, last_stamp_ = 0, last_update_ = 0;
  double last_value_ = 0;
  int64_t longest_wait_ = 0;  // between two readings
  int64_t shortest_ = 0, longest_ = 0, sum_ = 0;
  int64_t readings_ = 0, repeated_stamps_ = 0, updates_ = 0;
};

}  // namespace triplepoint::telemetry
