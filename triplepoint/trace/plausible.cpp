// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/plausible.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/issued.h"

namespace triplepoint::trace {
namespace {

constexpr int64_t ms = 1'000'000, second = 1000 * ms, minute = 60 * second, hour = 60 * minute;
constexpr int64_t least_length = 2000;  // ns; that kernels of a name take none is then a fault
constexpr Instant no_begin(INT64_MAX), no_end(INT64_MIN);
constexpr const char* counted = "counted by its reader";

/// Far apart stamps differ by more than 64 bits hold; a double's precision is enough to judge.
double distance(int64_t from, int64_t to) {
  return as_real(to) - as_real(from);
}

struct Call {
  int32_t rank = 0;
  int64_t correlation = 0, begin = 0;
  friend auto operator<=>(const Call&, const Call&) = default;
};

class Strays {
 public:
  explicit Strays(run::Timeline& timeline) : timeline_(timeline), spans_(timeline.spans) {}

  void leave_out(Skipped& skipped) {
    look_at_each();
    if (spans_.size() >= 4) {
      compare_with_launches(skipped);
      compare_with_others();
    }
    if (why_.empty()) return;
    place_untimed();
    size_t kept = 0;
    for (size_t i = 0; i < spans_.size(); ++i) {
      if (why_[i] != nullptr && why_[i] != counted) note_skipped(skipped, why_[i]);
      if (why_[i] != nullptr && !run::is_untimed(type_of(i))) continue;
      spans_[kept] = spans_[i];
      if (!timeline_.details.empty()) timeline_.details[kept] = timeline_.details[i];
      ++kept;
    }
    spans_.resize(kept);
    if (!timeline_.details.empty()) timeline_.details.resize(kept);
  }

 private:
  const run::SpanType& type_of(size_t i) const { return timeline_.types[as_size(spans_[i].type)]; }
  bool on_device(size_t i) const {
    const run::SpanKind kind = type_of(i).kind;
    return kind <= run::SpanKind::other || kind == run::SpanKind::copy;
  }
  void suspect(size_t i, const char* why, bool knows_begin = false) {
    if (why_.empty()) {
      why_.resize(spans_.size(), nullptr);
      knows_begin_.resize(spans_.size(), true);
    }
    if (why_[i] == nullptr) why_[i] = why;
    knows_begin_[i] = knows_begin_[i] && knows_begin;
  }

  bool is_out(size_t i) const { return !why_.empty() && why_[i] != nullptr; }
  int64_t length(size_t i) const {
    return spans_[i].end.nanoseconds() - spans_[i].begin.nanoseconds();
  }

  /// What a span's own stamps show, beside those of its name and of the one before it.
  void look_at_each() {
    std::vector<size_t> doubtful;
    std::vector<int64_t> last(timeline_.lanes.size(), INT64_MIN);
    int64_t earliest = INT64_MAX;  // but for 0
    std::set<size_t> falls_back;   // behind others of its lane
    for (size_t i = 0; i < spans_.size(); ++i) {
      if (spans_[i].end < spans_[i].begin) {
        suspect(i, spans_[i].end == no_end ? counted : "a span ends before it begins",
                spans_[i].begin != no_begin && spans_[i].begin != Instant());
        continue;
      }
      if (timeline_.details.empty() || type_of(i).kind > run::SpanKind::other) continue;
      const int32_t lane = timeline_.details[i].lane;
      const int64_t begin = spans_[i].begin.nanoseconds();
      if (length(i) == 0 || begin == 0) doubtful.push_back(i);
      if (begin == 0 && lane >= 0 && last[as_size(lane)] > ms) falls_back.insert(i);
      if (begin != 0 && lane >= 0) last[as_size(lane)] = begin;
      if (begin != 0) earliest = std::min(earliest, begin);
    }
    std::erase_if(doubtful, [&](size_t i) {
      const bool is_far = earliest > ms && earliest != INT64_MAX;
      return length(i) != 0 && !falls_back.contains(i) && !is_far;
    });
    if (doubtful.empty()) return;
    std::map<int32_t, std::vector<int64_t>> lengths;  // by type
    for (const size_t i : doubtful)
      lengths[spans_[i].type] = {};
    for (size_t i = 0; i < spans_.size(); ++i)
      if (const auto found = lengths.find(spans_[i].type); found != lengths.end() && !is_out(i))
        found->second.push_back(length(i));
    for (const size_t i : doubtful) {
      if (lower_median(lengths[spans_[i].type]) < least_length) continue;
      if (length(i) == 0)
        suspect(i, "a kernel takes no time, unlike others of its name", true);
      else
        suspect(i, "a kernel begins at 0, far from all others or behind others of its stream");
    }
  }

  /// Spans of a device without sound stamps lie behind the one before them on their lane.
  void place_untimed() {
    std::vector<int64_t> last(timeline_.lanes.size(), INT64_MIN);
    std::vector<std::vector<size_t>> first(last.size());  // before any other on their lane
    std::map<int32_t, int32_t> untimed;                   // by type
    const auto place = [&](size_t i, Instant at) {
      const auto [type, is_new] = untimed.try_emplace(spans_[i].type, 0);
      if (is_new) type->second = timeline_.intern(run::untimed(run::SpanType(type_of(i))));
      spans_[i].type = type->second;
      spans_[i].begin = spans_[i].end = at;
      spans_[i].bytes = Bytes();
      timeline_.details[i].correlation = -1;  // which would make it a call
    };
    for (size_t i = 0; i < spans_.size(); ++i) {
      const int32_t lane = timeline_.details.empty() ? -1 : timeline_.details[i].lane;
      if (lane < 0 || !on_device(i)) continue;
      int64_t& end = last[as_size(lane)];
      std::vector<size_t>& waiting = first[as_size(lane)];
      if (!is_out(i)) {
        for (const size_t one : waiting)
          place(one, spans_[i].begin);
        waiting.clear();
        end = spans_[i].end.nanoseconds();
      } else if (knows_begin_[i]) {
        place(i, spans_[i].begin);
      } else if (end != INT64_MIN) {
        place(i, Instant(end));
      } else {
        waiting.push_back(i);
      }
    }
  }

  std::vector<Call> calls() const {
    std::vector<Call> all;
    for (size_t i = 0; i < spans_.size(); ++i)
      if (!is_out(i) && type_of(i).kind == run::SpanKind::host &&
          timeline_.details[i].correlation >= 0)
        all.push_back(
            {spans_[i].rank, timeline_.details[i].correlation, spans_[i].begin.nanoseconds()});
    if (!std::ranges::is_sorted(all)) std::ranges::sort(all);
    return all;
  }

  /// From launch to begin, of each span on a device whose launch is known.
  void compare_with_launches(Skipped& skipped) {
    if (timeline_.details.empty()) return;
    const std::vector<Call> all = calls();
    if (all.empty()) return;
    std::vector<size_t> launched;
    std::vector<int64_t> delays;
    for (size_t i = 0; i < spans_.size(); ++i) {
      if (is_out(i) || !on_device(i) || timeline_.details[i].correlation < 0) continue;
      // Captures in one file number their calls alike: the last one before the kernel is meant.
      const Call key{spans_[i].rank, timeline_.details[i].correlation, INT64_MIN};
      auto call = std::lower_bound(all.begin(), all.end(), key);
      const auto is_same = [&] {
        return call != all.end() && call->rank == key.rank && call->correlation == key.correlation;
      };
      if (!is_same()) continue;
      for (++call; is_same() && call->begin <= spans_[i].begin.nanoseconds();)
        ++call;
      --call;
      launched.push_back(i);
      const double delay = distance(call->begin, spans_[i].begin.nanoseconds());
      delays.push_back(static_cast<int64_t>(std::clamp(delay, -4e18, 4e18)));
    }
    if (delays.size() < 3) return;
    std::vector<int64_t> sorted = delays;
    const int64_t low = lower_quantile(sorted, 0.25), high = lower_quantile(sorted, 0.75);
    const int64_t earliest =
        low >= 0 ? -ms : low - std::max(ms, std::min(hour, 4 * std::min(hour, high - low)));
    const int64_t latest = second + 100 * std::min(hour, std::max<int64_t>(high, 0));
    const auto is_early = [&](int64_t delay) { return delay < earliest; };
    const auto early = std::ranges::count_if(delays, is_early);
    const int64_t skew = low < 0 ? 0 : -ms;  // a few may well be early by little
    const auto before = std::ranges::count_if(delays, [&](int64_t d) { return d < skew; });
    const bool few = as_size(10 * early) <= std::max<size_t>(10, delays.size());
    if (before > 0 && (low < 0 || !few))
      note_reason(
          skipped,
          fmt::format("{} of {} kernels and copies begin before their launches (the clocks "
                      "of host and device differ): idle times by cause are not to be trusted",
                      before, delays.size()));
    supported_.resize(spans_.size(), false);
    late_.resize(spans_.size(), false);
    for (size_t n = 0; n < delays.size(); ++n) {
      supported_[launched[n]] = delays[n] <= latest;
      late_[launched[n]] = delays[n] > latest;
      if (is_early(delays[n]) && few)
        suspect(launched[n], "a span on a device begins before its own launch");
    }
  }

  void compare_with_others() {
    constexpr size_t most_sampled = 4096;
    std::vector<int64_t> sample;
    for (size_t i = 0; i < spans_.size(); i += 1 + spans_.size() / most_sampled)
      sample.push_back(spans_[i].begin.nanoseconds());
    const int64_t low = lower_quantile(sample, 0.1), high = lower_quantile(sample, 0.9);
    const double reach = 1000 * distance(low, high);
    for (size_t i = 0; i < spans_.size(); ++i) {
      const int64_t begin = spans_[i].begin.nanoseconds();
      const double away = std::max(distance(begin, low), distance(high, begin));
      const bool too_late = !late_.empty() && late_[i];  // after its launch
      if (away <= as_real(too_late ? second : minute) || away <= reach) continue;
      const bool alone = on_device(i) && (supported_.empty() || !supported_[i]);
      if (alone || away > as_real(hour)) suspect(i, "a span lies far away from all others");
    }
  }

  run::Timeline& timeline_;
  std::vector<run::Span>& spans_;
  std::vector<const char*> why_;        // empty: none is suspected
  std::vector<bool> knows_begin_;       // of those suspected
  std::vector<bool> supported_, late_;  // by a launch shortly before; long after it
};

/// What one lane holds, in order of begin.
struct LaneSums {
  int64_t total = 0, longest = 0, last_end = INT64_MIN;
  size_t longest_span = 0, before = SIZE_MAX, count = 0;
};

}  // namespace

run::Span span_without_length(std::optional<int64_t> begin, int32_t rank) {
  const bool is_known = begin && *begin > INT64_MIN;
  run::Span span{is_known ? Instant(*begin) : no_begin, no_end};
  span.rank = rank;
  return span;
}

void leave_out_strays(run::Timeline& timeline, Skipped& skipped) {
  Strays(timeline).leave_out(skipped);
}

void clip_overflowing(run::Timeline& timeline, bool any, Skipped& skipped) {
  if (timeline.details.empty()) return;
  std::vector<LaneSums> lanes(timeline.lanes.size());
  const auto lane_of = [&](size_t i) -> LaneSums* {
    const int32_t lane = timeline.details[i].lane;
    const bool device = lane >= 0 && timeline.lanes[as_size(lane)].stream != run::Stream::host;
    if (!device || run::is_untimed(timeline.types[as_size(timeline.spans[i].type)])) return nullptr;
    return &lanes[as_size(lane)];
  };
  const auto length_of = [&](size_t i) {
    return timeline.spans[i].end.nanoseconds() - timeline.spans[i].begin.nanoseconds();
  };
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    LaneSums* const lane = lane_of(i);
    if (lane == nullptr) continue;
    ++lane->count;
    lane->total += length_of(i);
    if (length_of(i) <= lane->longest) continue;
    lane->longest = length_of(i);
    lane->longest_span = i;
  }
  const auto overflowed = [&](const LaneSums& lane, size_t i) {
    return i == lane.longest_span && lane.count > 3 && lane.longest > 100 * ms &&
           lane.longest > 10 * (lane.total - lane.longest);
  };
  constexpr int64_t rounding = 2'000;  // ns, of a profiler's stamps
  int64_t clipped = 0, overlapping = 0, all = 0;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    LaneSums* const lane = lane_of(i);
    if (lane == nullptr) continue;
    if (lane->before != SIZE_MAX) {
      run::Span& before = timeline.spans[lane->before];
      ++all;
      overlapping += before.end.nanoseconds() > timeline.spans[i].begin.nanoseconds() + rounding;
      if (before.end > timeline.spans[i].begin && (any || overflowed(*lane, lane->before))) {
        before.end = timeline.spans[i].begin;
        ++clipped;
      }
    }
    lane->before = i;
  }
  // The last of a stream has no next one to end at.
  std::vector<size_t> unknown;
  for (const LaneSums& lane : lanes)
    if (lane.before != SIZE_MAX && overflowed(lane, lane.before) && lane.longest > minute)
      unknown.push_back(lane.before);
  std::sort(unknown.rbegin(), unknown.rend());
  for (const size_t i : unknown) {
    note_skipped(skipped, "the last span of a stream has an impossible length");
    timeline.spans.erase(timeline.spans.begin() + static_cast<std::ptrdiff_t>(i));
    timeline.details.erase(timeline.details.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (clipped == 0 && 20 * overlapping > all)
    note_reason(skipped, fmt::format("{} of {} kernels and copies overlap the one before on their "
                                     "stream, as those of several processes or GPUs under one "
                                     "number do, or of a CUDA graph: what is told of the rank may "
                                     "be the sum of several",
                                     overlapping, all));
  if (clipped > 0)
    note_reason(skipped, fmt::format("{} lengths run into the next operations of their stream "
                                     "(overflowed): each ends where the next begins",
                                     clipped));
}

}  // namespace triplepoint::trace
