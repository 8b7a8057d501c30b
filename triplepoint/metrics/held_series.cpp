// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/held_series.h"

#include <algorithm>

namespace triplepoint::metrics {

namespace {

int64_t median_distance(const std::vector<Instant>& times) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < times.size(); ++i)
    distances.push_back(times[i].nanoseconds() - times[i - 1].nanoseconds());
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<int64_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

}  // namespace

HeldSeries::HeldSeries(const run::Series& series, Holds holds, int64_t window)
    : period_(median_distance(series.times)) {
  const auto at = [&](size_t i) { return series.times[i].nanoseconds(); };
  const size_t count = series.times.size();
  for (size_t i = 0; i < count; ++i) {
    const int64_t before = i > 0 ? at(i - 1) : at(i) - period_;
    const int64_t after = i + 1 < count ? at(i + 1) : at(i) + period_;
    Piece piece{at(i), after, series.values[i]};
    if (holds == Holds::since_last) piece = {before, at(i), series.values[i]};
    if (holds == Holds::around_window) {
      const auto middle = [&](int64_t a, int64_t b) { return a + (b - a) / 2 - window / 2; };
      piece = {middle(before, at(i)), middle(at(i), after), series.values[i]};
    }
    if (piece.begin < piece.end) pieces_.push_back(piece);
  }
}

size_t HeldSeries::first_after(int64_t time) const {
  const auto found = std::upper_bound(pieces_.begin(), pieces_.end(), time,
                                      [](int64_t t, const Piece& p) { return t < p.end; });
  return static_cast<size_t>(found - pieces_.begin());
}

bool HeldSeries::covers(const TimeInterval& interval) const {
  return !pieces_.empty() && pieces_.front().begin <= interval.begin &&
         interval.end <= pieces_.back().end;
}

}  // namespace triplepoint::metrics
