// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/activity.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace triplepoint::metrics {

namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

bool ties_stages_together(const run::SpanType& type) {
  return type.group == spec::GroupKind::pipeline || type.group == spec::GroupKind::model ||
         type.group == spec::GroupKind::embedding;
}

}  // namespace

void Activity::clear() {
  for (auto& intervals : intervals_)
    intervals.clear();
}

void Activity::add(unsigned bit, int64_t begin, int64_t end) {
  if (begin < end) intervals_[static_cast<size_t>(std::countr_zero(bit))].push_back({begin, end});
}

void Activity::add(const run::Span& span, int64_t offset) {
  const run::SpanType& type = timeline_.types[static_cast<size_t>(span.type)];
  const int64_t begin = offset + span.begin.nanoseconds(), end = offset + span.end.nanoseconds();
  switch (type.kind) {
    case run::SpanKind::compute:
    case run::SpanKind::memory:
    case run::SpanKind::other:
      return add(Doing::computing, begin, end);
    case run::SpanKind::copy:
      return add(Doing::copying, begin, end);
    case run::SpanKind::communication: {
      const int64_t wait = ties_stages_together(type) ? run::whole_nanoseconds(span.wait) : 0;
      add(Doing::communicating, begin, end);
      return add(Doing::exchanging, begin + std::max<int64_t>(wait, 0), end);
    }
    case run::SpanKind::pass:
      return add(Doing::in_pass, begin, end);
    case run::SpanKind::host:
    case run::SpanKind::step:
      return;
  }
}

void Activity::unite(std::vector<Interval>& intervals) {
  const auto by_begin = [](Interval a, Interval b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_begin))
    std::sort(intervals.begin(), intervals.end(), by_begin);
  size_t last = 0;
  for (size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].begin <= intervals[last].end)
      intervals[last].end = std::max(intervals[last].end, intervals[i].end);
    else
      intervals[++last] = intervals[i];
  }
  if (!intervals.empty()) intervals.resize(last + 1);
}

/// Walks one list of intervals along the time.
class Activity::Cursor {
 public:
  explicit Cursor(const std::vector<Interval>& intervals)
      : next_(intervals.data()), end_(intervals.data() + intervals.size()) {}

  /// Goes on to `now`; intervals are disjoint, so at most one ends there.
  void advance(int64_t now) {
    if (next_ != end_ && next_->end <= now) ++next_;
  }
  bool is_inside(int64_t now) const { return next_ != end_ && next_->begin <= now; }
  int64_t next_change(int64_t now) const {
    if (next_ == end_) return never;
    return is_inside(now) ? next_->end : next_->begin;
  }

 private:
  const Interval* next_;
  const Interval* end_;
};

const std::vector<Segment>& Activity::segments() {
  segments_.clear();
  for (auto& intervals : intervals_)
    unite(intervals);
  static_assert(Doing::bits == 5);
  std::array<Cursor, Doing::bits> cursors = {Cursor(intervals_[0]), Cursor(intervals_[1]),
                                             Cursor(intervals_[2]), Cursor(intervals_[3]),
                                             Cursor(intervals_[4])};
  for (int64_t now = std::numeric_limits<int64_t>::min();;) {
    unsigned doing = 0, bit = 1;
    int64_t change = never;
    for (Cursor& cursor : cursors) {
      cursor.advance(now);
      if (cursor.is_inside(now)) doing |= bit;
      change = std::min(change, cursor.next_change(now));
      bit *= 2;
    }
    if (change == never) return segments_;
    if (doing != 0) segments_.push_back({now, change, doing});
    now = change;
  }
}

}  // namespace triplepoint::metrics
