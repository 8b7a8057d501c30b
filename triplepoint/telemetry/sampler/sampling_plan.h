// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/units.h"

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
  bool list_processes = false;      // who computes on which GPU: after 1, 2, 4 ... 60 s
  size_t most_waiting = 1U << 16U;  // samples kept for take(); later ones are lost, and counted
};

/// What sampling itself costs and how well it keeps its time. Since start().
struct SamplerCost {
  double cpu_s = 0;            // of the sampling threads
  int64_t ticks = 0;           // that were kept, of all sensors
  int64_t lost_ticks = 0;      // of the grid, passed while a call, the scheduler or a stop held us
  int64_t lost_samples = 0;    // not taken in time
  double longest_call_s = 0;   // of one sensor in one tick
  std::string slowest_sensor;  // whose call that was
};

}  // namespace triplepoint::telemetry
