// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/metrics/phase_cost.h"

namespace triplepoint::metrics {

/// A sampled signal as a function of time: each value holds over a stretch of time.
class HeldSeries {
 public:
  struct Piece {
    int64_t begin = 0, end = 0;  // ns
    double value = 0;
  };
  enum class Holds {
    until_next,    // from its stamp to the next one: clocks, temperatures, throttle reasons
    since_last,    // from the stamp before to its own: a mean since then (power_w)
    around_window  // nearest to the middle of its window: instant readings, running means
  };
  HeldSeries(const run::Series&, Holds, int64_t window = 0);

  const std::vector<Piece>& pieces() const { return pieces_; }
  int64_t period() const { return period_; }  // median distance of the stamps; 0 for one value
  bool covers(const TimeInterval&) const;

  /// Calls visit(piece, overlap) for every piece that the intervals touch.
  template <class Visit>
  void over(const std::vector<TimeInterval>& intervals, Visit visit) const {
    for (const TimeInterval& interval : intervals)
      for (size_t i = first_after(interval.begin); i < pieces_.size(); ++i) {
        if (pieces_[i].begin >= interval.end) break;
        visit(pieces_[i], TimeInterval{std::max(interval.begin, pieces_[i].begin),
                                       std::min(interval.end, pieces_[i].end)});
      }
  }
  /// Index of the first piece that ends after a time.
  size_t first_after(int64_t time) const;

 private:
  std::vector<Piece> pieces_;
  int64_t period_ = 0;
};

}  // namespace triplepoint::metrics
