// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

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

}  // namespace triplepoint::telemetry
