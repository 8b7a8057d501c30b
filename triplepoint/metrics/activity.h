// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/occupancy.h"

namespace triplepoint::metrics {

/// A stretch of time, in nanoseconds, in which the set of Doing does not change.
struct Segment {
  int64_t begin = 0, end = 0;
  unsigned doing = 0;
};

/// Collects what happens, in any order, and says what goes on when: one list of intervals per bit
/// of Doing.
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
  std::array<std::vector<Interval>, Doing::bits> intervals_;  // by number of the bit
  std::vector<Segment> segments_;
};

}  // namespace triplepoint::metrics
