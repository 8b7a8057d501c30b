// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/occupancy.h"

#include <algorithm>

#include "triplepoint/metrics/activity.h"

namespace triplepoint::metrics {

namespace {

using Times = std::array<int64_t, Doing::sets>;

void add(Times& sum, const Times& more, int64_t times = 1) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += times * more[i];
}

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
    for (const Block& block : blocks_)
      add(total_, block.total, block.repeat);
  }

  int64_t begin() const { return begin_; }  // relative to the instance, as all times here
  int64_t end() const { return end_; }
  const Times& total() const { return total_; }

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
    return std::all_of(pattern.pieces.begin(), pattern.pieces.end(), [](const auto& piece) {
      const int64_t length = run::whole_nanoseconds(piece.length);
      return std::all_of(piece.spans.begin(), piece.spans.end(), [&](const run::Span& span) {
        return span.begin.nanoseconds() >= 0 && span.end.nanoseconds() <= length;
      });
    });
  }

  void add_pieces(const run::Timeline& timeline, const run::Pattern& pattern) {
    int64_t begin = 0;
    for (const run::PatternPiece& piece : pattern.pieces) {
      Activity activity(timeline);
      for (const run::Span& span : piece.spans)
        activity.add(span);
      const int64_t length = run::whole_nanoseconds(piece.length);
      activity.add(Doing::in_pass, 0, length);
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
    activity.add(Doing::in_pass, first, last);
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
    const auto i = static_cast<size_t>(next - block.segments.begin()) - 1;
    add(times, block.before[i]);
    times[block.segments[i].doing] += rest - block.segments[i].begin;
    return times;
  }

  std::vector<Block> blocks_;
  int64_t begin_ = 0, end_ = 0;
  Times total_{};
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
    const auto [first, last] = run::detail::items_of_rank(timeline_.instances, rank);
    const bool expanded = overlap_each_other(first, last);
    if (expanded) add_expanded(first, last);
    Occupancy occupancy;
    for (const Segment& segment : singles_.segments())
      occupancy.nanoseconds[segment.doing] += segment.end - segment.begin;
    if (!expanded) add_instances(first, last, occupancy.nanoseconds);
    return occupancy;
  }

 private:
  using Instance = run::PatternInstance;

  const Profile& profile(const Instance& instance) const {
    return profiles_[static_cast<size_t>(instance.pattern)];
  }
  int64_t begin(const Instance& i) const { return i.begin.nanoseconds() + profile(i).begin(); }
  int64_t end(const Instance& i) const { return i.begin.nanoseconds() + profile(i).end(); }

  bool overlap_each_other(const Instance* first, const Instance* last) const {
    for (const Instance* i = first; i != last && i + 1 != last; ++i)
      if (begin(i[1]) < end(*i)) return true;
    return false;
  }

  void add_expanded(const Instance* first, const Instance* last) {
    for (const Instance* i = first; i != last; ++i) {
      run::detail::visit_instance(timeline_, *i, [&](const run::Span& s) { singles_.add(s); });
      singles_.add(Doing::in_pass, begin(*i), end(*i));
    }
  }

  /// Adds the instances, and where single spans run at the same time, what both do together.
  void add_instances(const Instance* first, const Instance* last, Times& times) {
    const std::vector<Segment>& segments = singles_.segments();
    auto segment = segments.begin();
    for (const Instance* i = first; i != last; ++i) {
      add(times, profile(*i).total());
      while (segment != segments.end() && segment->end <= begin(*i))
        ++segment;
      for (auto s = segment; s != segments.end() && s->begin < end(*i); ++s)
        join(*s, *i, times);
    }
  }

  void join(const Segment& segment, const Instance& instance, Times& times) const {
    const int64_t origin = instance.begin.nanoseconds();
    const int64_t from = std::max(segment.begin, begin(instance));
    const int64_t until = std::min(segment.end, end(instance));
    const Times inside = profile(instance).between(from - origin, until - origin);
    times[segment.doing] -= until - from;
    for (unsigned doing = 0; doing < Doing::sets; ++doing) {
      times[doing] -= inside[doing];
      times[doing | segment.doing] += inside[doing];
    }
  }

  const run::Timeline& timeline_;
  Activity singles_;
  std::vector<Profile> profiles_;
};

}  // namespace

Seconds Occupancy::time(unsigned with, unsigned without) const {
  int64_t sum = 0;
  for (unsigned doing = 0; doing < Doing::sets; ++doing)
    if ((doing & with) == with && (doing & without) == 0) sum += nanoseconds[doing];
  return static_cast<double>(sum) * unit::ns;
}

Seconds Occupancy::time_with_any(unsigned bits) const {
  int64_t sum = 0;
  for (unsigned doing = 0; doing < Doing::sets; ++doing)
    if ((doing & bits) != 0) sum += nanoseconds[doing];
  return static_cast<double>(sum) * unit::ns;
}

std::vector<Occupancy> occupancy_of_ranks(const run::Timeline& timeline) {
  RankWatcher watcher(timeline);
  std::vector<Occupancy> ranks;
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank)
    ranks.push_back(watcher.watch(rank));
  return ranks;
}

}  // namespace triplepoint::metrics
