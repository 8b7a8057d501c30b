// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/occupancy.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

namespace triplepoint::metrics {
namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

}  // namespace

bool ties_stages_together(const run::SpanType& type) {
  return type.group == spec::GroupKind::pipeline || type.group == spec::GroupKind::model ||
         type.group == spec::GroupKind::embedding;
}

void Activity::clear() {
  for (auto& intervals : intervals_)
    intervals.clear();
}

void Activity::add(unsigned bit, int64_t begin, int64_t end) {
  if (begin < end) intervals_[as_size(std::countr_zero(bit))].push_back({begin, end});
}

void Activity::add(const run::Span& span, int64_t offset) {
  const run::SpanType& type = timeline_.types[as_size(span.type)];
  const int64_t begin = offset + span.begin.nanoseconds(), end = offset + span.end.nanoseconds();
  switch (type.kind) {
    case run::SpanKind::compute:
    case run::SpanKind::memory:
    case run::SpanKind::other:
      return add(DeviceActivity::computing, begin, end);
    case run::SpanKind::copy:
      return add(DeviceActivity::copying, begin, end);
    case run::SpanKind::communication: {
      const int64_t wait = std::max<int64_t>(run::whole_nanoseconds(span.wait), 0);
      const bool is_schedule = ties_stages_together(type);
      add(DeviceActivity::communicating, begin, end);
      if (!is_schedule) add(DeviceActivity::awaiting, begin, std::min(begin + wait, end));
      return add(DeviceActivity::exchanging, is_schedule ? begin + wait : begin, end);
    }
    case run::SpanKind::pass:
      return add(DeviceActivity::in_pass, begin, end);
    case run::SpanKind::host:
    case run::SpanKind::step:
      return;
  }
}

void Activity::unite(std::vector<Interval>& intervals) {
  const auto by_begin = [](Interval a, Interval b) { return a.begin < b.begin; };
  if (!std::ranges::is_sorted(intervals, by_begin)) std::ranges::sort(intervals, by_begin);
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
  static_assert(DeviceActivity::bits == 6);
  std::array<Cursor, DeviceActivity::bits> cursors = {Cursor(intervals_[0]), Cursor(intervals_[1]),
                                                      Cursor(intervals_[2]), Cursor(intervals_[3]),
                                                      Cursor(intervals_[4]), Cursor(intervals_[5])};
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

namespace {

using Times = std::array<int64_t, DeviceActivity::sets>;

void add(Times& sum, const Times& more, int64_t times = 1) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += times * more[i];
}

/// Producers round times to nanoseconds one by one; a span that ends so much behind its piece is
/// cut.
constexpr int64_t rounding_ns = 2;

/// A pattern, looked at once: how long it does what between any two instants.
///
/// It is a row of blocks, each a list of segments that repeats. A piece is a block if its spans
/// stay inside its length; if one piece's do not, the whole pattern is one block that does not
/// repeat.
class Profile {
 public:
  Profile(const run::Timeline& timeline, const run::Pattern& pattern) {
    if (stays_inside(pattern))
      add_pieces(timeline, pattern);
    else
      add_expanded(timeline, pattern);
    end_ = blocks_.empty() ? 0 : blocks_.back().end();
    begin_ = blocks_.empty() ? 0 : blocks_.front().begin;
  }

  int64_t begin() const { return begin_; }  // relative to the instance, as all times here
  int64_t end() const { return end_; }

  /// What is done between two instants, segment by segment.
  void for_each_segment(int64_t from, int64_t until, auto&& visit) const {
    for (const Block& block : blocks_) {
      if (block.end() <= from || block.begin >= until) continue;
      const int64_t first = std::max<int64_t>(0, (from - block.begin) / block.length);
      for (int64_t i = first; i < block.repeat && block.begin + i * block.length < until; ++i)
        for (const Segment& segment : block.segments) {
          const int64_t origin = block.begin + i * block.length;
          const Segment cut{std::max(from, origin + segment.begin),
                            std::min(until, origin + segment.end), segment.doing};
          if (cut.begin < cut.end) visit(cut);
        }
    }
  }

  Times between(int64_t from, int64_t until) const {
    Times times = before(until);
    add(times, before(from), -1);
    return times;
  }

 private:
  struct Block {
    int64_t begin = 0, length = 0, repeat = 1;
    std::vector<Segment> segments;  // without gaps over [0, length)
    std::vector<Times> before;      // what was done when segment i begins
    Times total{}, before_block{};
    int64_t end() const { return begin + repeat * length; }
  };

  static bool stays_inside(const run::Pattern& pattern) {
    return std::ranges::all_of(pattern.pieces, [](const auto& piece) {
      const int64_t length = run::whole_nanoseconds(piece.length);
      return std::ranges::all_of(piece.spans, [&](const run::Span& span) {
        return span.begin.nanoseconds() >= 0 && span.end.nanoseconds() <= length + rounding_ns;
      });
    });
  }

  void add_pieces(const run::Timeline& timeline, const run::Pattern& pattern) {
    int64_t begin = 0;
    for (const run::PatternPiece& piece : pattern.pieces) {
      Activity activity(timeline);
      const int64_t length = run::whole_nanoseconds(piece.length);
      for (run::Span span : piece.spans) {
        span.begin = std::min(span.begin, Instant(length));
        span.end = std::min(span.end, Instant(length));
        activity.add(span);
      }
      activity.add(DeviceActivity::in_pass, 0, length);
      add_block({.begin = begin, .length = length, .repeat = piece.repeat}, activity.segments());
      begin += piece.repeat * length;
    }
  }

  void add_expanded(const run::Timeline& timeline, const run::Pattern& pattern) {
    Activity activity(timeline);
    int64_t begin = 0, first = 0, last = 0;
    for (const run::PatternPiece& piece : pattern.pieces) {
      for (int32_t i = 0; i < piece.repeat; ++i, begin += run::whole_nanoseconds(piece.length)) {
        for (const run::Span& span : piece.spans) {
          activity.add(span, begin);
          first = std::min(first, begin + span.begin.nanoseconds());
          last = std::max(last, begin + span.end.nanoseconds());
        }
      }
      last = std::max(last, begin);
    }
    activity.add(DeviceActivity::in_pass, first, last);
    std::vector<Segment> segments = activity.segments();
    for (Segment& segment : segments)
      segment = {segment.begin - first, segment.end - first, segment.doing};
    add_block({.begin = first, .length = last - first, .repeat = 1}, std::move(segments));
  }

  void add_block(Block block, std::vector<Segment> segments) {
    if (block.length == 0 || block.repeat == 0) return;
    block.segments = std::move(segments);
    for (const Segment& segment : block.segments) {
      block.before.push_back(block.total);
      block.total[segment.doing] += segment.end - segment.begin;
    }
    if (!blocks_.empty()) {
      block.before_block = blocks_.back().before_block;
      add(block.before_block, blocks_.back().total, blocks_.back().repeat);
    }
    blocks_.push_back(std::move(block));
  }

  /// What was done from the beginning until `when`.
  Times before(int64_t when) const {
    const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), when,
                                        [](int64_t t, const Block& b) { return t < b.begin; });
    if (after == blocks_.begin()) return {};
    const Block& block = *(after - 1);
    const int64_t inside = std::min(when, block.end()) - block.begin;
    Times times = block.before_block;
    add(times, block.total, inside / block.length);
    const int64_t rest = inside % block.length;
    const auto next = std::upper_bound(block.segments.begin(), block.segments.end(), rest,
                                       [](int64_t t, const Segment& s) { return t < s.begin; });
    const auto i = as_size(next - block.segments.begin()) - 1;
    add(times, block.before[i]);
    times[block.segments[i].doing] += rest - block.segments[i].begin;
    return times;
  }

  std::vector<Block> blocks_;
  int64_t begin_ = 0, end_ = 0;
};

class RankWatcher {
 public:
  explicit RankWatcher(const run::Timeline& timeline) : timeline_(timeline), singles_(timeline) {
    for (const run::Pattern& pattern : timeline.patterns)
      profiles_.emplace_back(timeline, pattern);
  }

  Occupancy watch(int32_t rank) {
    singles_.clear();
    const auto [span, spans_end] = run::detail::items_of_rank(timeline_.spans, rank);
    for (const run::Span* s = span; s != spans_end; ++s)
      singles_.add(*s);
    take_instances(rank);
    Occupancy occupancy;
    for (const Segment& segment : singles_.segments())
      occupancy.nanoseconds[segment.doing] += segment.end - segment.begin;
    add_instances(occupancy.nanoseconds);
    return occupancy;
  }

 private:
  /// An instance over that part of its time in which no earlier one still runs.
  struct Part {
    const Profile* profile;
    int64_t origin, begin, end;
  };

  /// Cuts the instances so that none overlap; what is cut off counts among the single spans.
  void take_instances(int32_t rank) {
    parts_.clear();
    int64_t taken_until = std::numeric_limits<int64_t>::min();
    const auto [first, last] = run::detail::items_of_rank(timeline_.instances, rank);
    for (const run::PatternInstance* i = first; i != last; ++i) {
      const Profile& profile = profiles_[as_size(i->pattern)];
      const int64_t origin = i->begin.nanoseconds();
      const int64_t begin = origin + profile.begin(), end = origin + profile.end();
      if (begin < taken_until) expand(profile, origin, begin, std::min(end, taken_until));
      if (std::max(begin, taken_until) < end)
        parts_.push_back({&profile, origin, std::max(begin, taken_until), end});
      taken_until = std::max(taken_until, end);
    }
  }

  void expand(const Profile& profile, int64_t origin, int64_t begin, int64_t end) {
    profile.for_each_segment(begin - origin, end - origin, [&](const Segment& segment) {
      for (unsigned bit = 1; bit < DeviceActivity::sets; bit *= 2)
        if ((segment.doing & bit) != 0)
          singles_.add(bit, origin + segment.begin, origin + segment.end);
    });
  }

  /// Adds the instances, and where single spans run at the same time, what both do together.
  void add_instances(Times& times) {
    const std::vector<Segment>& segments = singles_.segments();
    auto segment = segments.begin();
    for (const Part& part : parts_) {
      add(times, part.profile->between(part.begin - part.origin, part.end - part.origin));
      while (segment != segments.end() && segment->end <= part.begin)
        ++segment;
      for (auto s = segment; s != segments.end() && s->begin < part.end; ++s)
        join(*s, part, times);
    }
  }

  static void join(const Segment& segment, const Part& part, Times& times) {
    const int64_t from = std::max(segment.begin, part.begin);
    const int64_t until = std::min(segment.end, part.end);
    const Times inside = part.profile->between(from - part.origin, until - part.origin);
    times[segment.doing] -= until - from;
    for (unsigned doing = 0; doing < DeviceActivity::sets; ++doing) {
      times[doing] -= inside[doing];
      times[doing | segment.doing] += inside[doing];
    }
  }

  const run::Timeline& timeline_;
  Activity singles_;
  std::vector<Part> parts_;
  std::vector<Profile> profiles_;
};

}  // namespace

int64_t Occupancy::nanoseconds_with(unsigned with, unsigned without) const {
  int64_t sum = 0;
  for (unsigned doing = 0; doing < DeviceActivity::sets; ++doing)
    if ((doing & with) == with && (doing & without) == 0) sum += nanoseconds[doing];
  return sum;
}

int64_t Occupancy::nanoseconds_with_any(unsigned bits) const {
  int64_t sum = 0;
  for (unsigned doing = 0; doing < DeviceActivity::sets; ++doing)
    if ((doing & bits) != 0) sum += nanoseconds[doing];
  return sum;
}

Seconds Occupancy::time(unsigned with, unsigned without) const {
  return as_real(nanoseconds_with(with, without)) * unit::ns;
}

Seconds Occupancy::time_with_any(unsigned bits) const {
  return as_real(nanoseconds_with_any(bits)) * unit::ns;
}

std::vector<Occupancy> occupancy_of_ranks(const run::Timeline& timeline) {
  RankWatcher watcher(timeline);
  return numbered(timeline.num_ranks, [&](int32_t rank) { return watcher.watch(rank); });
}

}  // namespace triplepoint::metrics
