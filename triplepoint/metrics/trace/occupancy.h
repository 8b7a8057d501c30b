// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// What a rank's device does at one instant: a set of these bits.
struct DeviceActivity {
  static constexpr unsigned computing = 1;      ///< a kernel other than a collective or a copy runs
  static constexpr unsigned communicating = 2;  ///< a collective or point-to-point kernel runs
  static constexpr unsigned exchanging = 4;  ///< one of them does more than wait for the schedule
  static constexpr unsigned in_pass = 8;    ///< between begin and end of a forward or backward pass
  static constexpr unsigned copying = 16;   ///< a memcpy or memset runs on the device
  static constexpr unsigned awaiting = 32;  ///< a collective waits for the last peer of its group
  static constexpr unsigned bits = 6, sets = 1U << bits;
  static constexpr unsigned on_device = computing | communicating | copying;
};

/// How long one rank was in which set of DeviceActivity, in whole nanoseconds. The empty set is not
/// counted: it lies outside of what the timeline shows.
///
/// A communication span waits for the schedule while its `wait` lasts, if its group is the
/// pipeline, the model or the tied embedding: the groups that tie stages together. In other groups
/// it exchanges all the time, and awaits its peers while `wait` lasts.
struct Occupancy {
  std::array<int64_t, DeviceActivity::sets> nanoseconds{};

  /// Nanoseconds during which every bit of `with` is set and none of `without`.
  int64_t nanoseconds_with(unsigned with, unsigned without = 0) const;
  /// Nanoseconds during which at least one of the bits is set.
  int64_t nanoseconds_with_any(unsigned bits) const;
  /// The same as times.
  Seconds time(unsigned with, unsigned without = 0) const;
  Seconds time_with_any(unsigned bits) const;
};

/// Whether waiting in it is for the schedule: its group is the pipeline, the model or the tied
/// embedding.
bool ties_stages_together(const run::SpanType&);

/// Of every rank, from rank 0 on. Exact, as if every instance was expanded, but a pattern is looked
/// at once: cost grows with patterns, single spans and instances, not with the spans they stand
/// for. Only where two instances of a rank overlap, the overlap is expanded. A pass reaches from
/// the first begin to the last end of what its pattern contains.
std::vector<Occupancy> occupancy_of_ranks(const run::Timeline&);

/// A stretch of time, in nanoseconds, in which the set of activities does not change.
struct Segment {
  int64_t begin = 0, end = 0;
  unsigned doing = 0;
};

/// Collects what happens, in any order, and says what goes on when: one list of intervals per bit
/// of DeviceActivity.
class Activity {
 public:
  explicit Activity(const run::Timeline& timeline) : timeline_(timeline) {}

  void clear();
  void add(const run::Span& span, int64_t offset = 0);
  void add(unsigned bit, int64_t begin, int64_t end);

  /// Disjoint segments in order of time; where nothing goes on there is none.
  const std::vector<Segment>& segments();

 private:
  struct Interval {
    int64_t begin, end;
  };
  class Cursor;
  static void unite(std::vector<Interval>& intervals);

  const run::Timeline& timeline_;
  std::array<std::vector<Interval>, DeviceActivity::bits> intervals_;  // by number of the bit
  std::vector<Segment> segments_;
};

}  // namespace triplepoint::metrics
