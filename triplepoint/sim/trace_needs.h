// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace triplepoint::sim {

inline constexpr int64_t never = std::numeric_limits<int64_t>::min();

/// A point that is done: when it was, and when it is now.
struct DonePoint {
  int64_t before = never, now = never;
  int32_t queue = -1;
  bool known() const { return before != never; }
};

/// The last two points of different queues.
struct LastTwo {
  DonePoint last, other;
  void add(const DonePoint& point) {
    if (point.queue != last.queue) other = last;
    last = point;
  }
  const DonePoint& not_of(int32_t queue) const { return last.queue == queue ? other : last; }
};

/// The needs of one point: which one bound it when it was measured, and when it may come now.
class Needs {
 public:
  explicit Needs(int64_t time) : time_(time) {}
  void add(const DonePoint& need, int64_t least_lag, double factor = 1) {
    if (!need.known()) return;
    const int64_t lag = std::min(least_lag, time_ - need.before);
    earliest_ = std::max(earliest_, need.now + scaled(lag, factor));
    if (binding_.known() && need.before + lag <= bound_) return;
    bound_ = need.before + lag;
    binding_ = need;
    factor_ = factor;
  }
  bool any() const { return binding_.known(); }
  /// Time that passed between what was needed and the point.
  int64_t gap() const { return time_ - bound_; }
  int64_t now() const {
    return std::max(earliest_, binding_.now + scaled(time_ - binding_.before, factor_));
  }

  /// Whole nanoseconds; what is not scaled stays exact however long it is.
  static int64_t scaled(int64_t lag, double factor) {
    return factor == 1 ? lag : std::llround(static_cast<double>(lag) * factor);
  }

 private:
  int64_t time_;

  int64_t bound_ = 0, earliest_ = never;
  double factor_ = 1;
  DonePoint binding_;
};

}  // namespace triplepoint::sim
