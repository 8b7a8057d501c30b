// SPDX-License-Identifier: Apache-2.0
// Which rank's own delays the others' waits come from (definitions and source: delay_blame.h).
//
// Collectives are visited in order of the last arrival. After an exposed wait a rank is as late as
// the last starter and for the same reasons, so it takes over that one's delays, and its own hidden
// ones are forgotten. Delays of a rank in the list are few (those of culprits), so only the largest
// are kept; what is dropped is blamed on no rank.
//
// Cost: a window per part of a collective, with a search in the rank's kernels and those inside.
#include "triplepoint/metrics/trace/delay_blame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

CommunicationEnds::CommunicationEnds(const std::vector<Collective>& collectives, int32_t ranks,
                                     bool met)
    : of_rank_(static_cast<size_t>(ranks)) {
  for (size_t c = 0; c < collectives.size(); ++c) {
    if (met && !collectives[c].across_ranks()) continue;
    for (const CollectivePart& part : collectives[c].parts)
      of_rank_[static_cast<size_t>(part.rank)].push_back({part.end, static_cast<int32_t>(c)});
  }
  for (std::vector<End>& ends : of_rank_)
    std::stable_sort(ends.begin(), ends.end(),
                     [](const End& a, const End& b) { return a.time < b.time; });
}

CommunicationEnds::End CommunicationEnds::before(const CollectivePart& part,
                                                 int64_t otherwise) const {
  const std::vector<End>& ends = of_rank_[static_cast<size_t>(part.rank)];
  auto after = std::upper_bound(ends.begin(), ends.end(), part.begin,
                                [](int64_t time, const End& end) { return time < end.time; });
  if (after == ends.begin()) return {otherwise, -1};
  return *--after;
}

namespace {

constexpr double times_noise = 6;         // of the sums of delays
constexpr double min_cost_share = 0.005;  // of the timeline; a smaller cost is not reported
constexpr size_t most_kept = 16;          // delays of other ranks that a rank carries

/// One rank's own time before one part of a collective.
struct OwnTime {
  int64_t length = 0, busy = 0;
  int64_t kernel_excess = 0, gap_excess = 0;  // ns beyond the medians of the same ones
  int32_t slowest = -1;                       // span of the kernel with most excess
  int64_t most_excess = 0;                    // ns, of that
  int64_t excess() const { return kernel_excess + gap_excess; }
  double variance = 0;  // ns^2, as they usually scatter
  int64_t kernels = 0;
};

/// How long something usually takes, and how that varies on one rank.
struct Usual {
  int64_t middle = 0;
  double variance = 0;  // of the median rank, so that one rank's troubles are no reason to doubt
};
class Durations {
 public:
  void add(int32_t rank, int64_t time) { of_rank_[rank].push_back(time); }
  Usual usual() const {
    Usual usual;
    std::vector<int64_t> all;
    std::vector<double> variances;
    for (const auto& [rank, times] : of_rank_) {
      all.insert(all.end(), times.begin(), times.end());
      if (times.size() < 2) continue;
      double sum = 0, squares = 0;
      for (const int64_t time : times)
        sum += static_cast<double>(time);
      const double mean = sum / static_cast<double>(times.size());
      for (const int64_t time : times)
        squares += (static_cast<double>(time) - mean) * (static_cast<double>(time) - mean);
      variances.push_back(squares / static_cast<double>(times.size() - 1));
    }
    usual.middle = lower_median(std::move(all));
    if (!variances.empty()) usual.variance = lower_median(std::move(variances));
    return usual;
  }

 private:
  std::map<int32_t, std::vector<int64_t>> of_rank_;
};

/// The kernels of every rank, with how long each kind of them, and the gap before it, usually is.
class Kernels {
 public:
  explicit Kernels(const run::Timeline& timeline)
      : timeline_(timeline),
        of_rank_(static_cast<size_t>(timeline.num_ranks)),
        gap_(timeline.spans.size(), 0) {
    std::map<Key, Durations> durations, gaps;
    int64_t covered = 0;
    int32_t last_rank = -1;
    for (size_t i = 0; i < timeline.spans.size(); ++i) {
      const run::Span& span = timeline.spans[i];
      const run::SpanKind kind = type_of(timeline, span).kind;
      if (!is_kernel(kind)) continue;
      const int64_t begin = span.begin.nanoseconds();
      if (span.rank != last_rank) first_[span.rank] = begin;
      if (span.rank == last_rank && begin > covered) gap_[i] = begin - covered;
      if (span.rank == last_rank) gaps[key_of(i)].add(span.rank, gap_[i]);
      covered = span.rank == last_rank ? std::max(covered, span.end.nanoseconds())
                                       : span.end.nanoseconds();
      last_rank = span.rank;
      if (kind == run::SpanKind::communication) continue;
      OfRank& rank = of_rank_[static_cast<size_t>(span.rank)];
      rank.spans.push_back(static_cast<int32_t>(i));
      rank.longest = std::max(rank.longest, nanoseconds_of(span));
      durations[key_of(i)].add(span.rank, nanoseconds_of(span));
    }
    for (const auto& [key, all] : durations)
      usual_[key] = all.usual();
    for (const auto& [key, all] : gaps)
      usual_gap_[key] = all.usual();
    std::vector<int64_t> first;
    for (const auto& [rank, begin] : first_)
      first.push_back(begin);
    if (!first.empty()) usual_first_ = lower_median(std::move(first));
  }

  /// Of the rank's own time from `begin` until its communication span begins.
  OwnTime before(const CollectivePart& part, int64_t begin) const {
    OwnTime own = between(part.rank, begin, part.begin);
    add_gap(part.span, begin, own);
    // A rank that was first seen later than others has been late before.
    const int64_t first = first_.at(part.rank);
    if (first >= begin && first <= part.begin) own.gap_excess += first - usual_first_;
    return own;
  }

  /// Nanoseconds of [begin, end) in which the rank's device runs kernels besides communication.
  int64_t busy(int32_t rank, int64_t begin, int64_t end) const {
    return between(rank, begin, end).busy;
  }

 private:
  struct OfRank {
    std::vector<int32_t> spans;  // by begin
    int64_t longest = 0;
  };
  using Key = std::pair<int32_t, int64_t>;

  OwnTime between(int32_t rank, int64_t begin, int64_t end) const {
    OwnTime own{.length = end - begin};
    int64_t covered = begin;
    for_each(rank, begin, end, [&](int32_t i) {
      const run::Span& span = timeline_.spans[static_cast<size_t>(i)];
      const int64_t first = std::max(span.begin.nanoseconds(), begin);
      const int64_t last = std::min(span.end.nanoseconds(), end);
      const int64_t duration = nanoseconds_of(span);
      if (last <= first || duration <= 0) return;
      ++own.kernels;
      const double share = static_cast<double>(last - first) / static_cast<double>(duration);
      const Usual& usual = usual_.at(key_of(static_cast<size_t>(i)));
      const int64_t excess = last - first - std::llround(share * static_cast<double>(usual.middle));
      own.kernel_excess += excess;
      if (excess > own.most_excess) {
        own.most_excess = excess;
        own.slowest = i;
      }
      own.variance += usual.variance;
      add_gap(i, begin, own);
      own.busy += std::max<int64_t>(0, last - std::max(first, covered));
      covered = std::max(covered, last);
    });
    return own;
  }

  /// The part behind `begin` of the gap before a span.
  void add_gap(int32_t span, int64_t begin, OwnTime& own) const {
    const auto i = static_cast<size_t>(span);
    const int64_t start = timeline_.spans[i].begin.nanoseconds();
    const auto usual = usual_gap_.find(key_of(i));
    if (start < begin || usual == usual_gap_.end()) return;
    own.gap_excess += std::min(gap_[i], start - begin) - usual->second.middle;
    own.variance += usual->second.variance;
  }

  /// Kernels of one name and grid do the same work.
  Key key_of(size_t i) const {
    const run::SpanDetail* detail = detail_of(timeline_, i);
    return {timeline_.spans[i].type, detail == nullptr ? -1 : detail->blocks};
  }
  template <class Visit>
  void for_each(int32_t rank, int64_t begin, int64_t end, Visit visit) const {
    const OfRank& of = of_rank_[static_cast<size_t>(rank)];
    const auto begin_of = [&](int32_t i) {
      return timeline_.spans[static_cast<size_t>(i)].begin.nanoseconds();
    };
    auto i = std::lower_bound(of.spans.begin(), of.spans.end(), begin - of.longest,
                              [&](int32_t span, int64_t time) { return begin_of(span) < time; });
    for (; i != of.spans.end() && begin_of(*i) < end; ++i)
      visit(*i);
  }

  const run::Timeline& timeline_;
  std::vector<OfRank> of_rank_;
  std::vector<int64_t> gap_;  // before each span on its rank's device, ns
  std::map<Key, Usual> usual_, usual_gap_;
  std::map<int32_t, int64_t> first_;  // when anything was first seen on the rank's device
  int64_t usual_first_ = 0;
};

/// What a rank's present lag consists of: nanoseconds by the rank they come from.
using Delays = std::map<int32_t, int64_t>;

class Propagation {
 public:
  Propagation(const run::Timeline& timeline, const std::vector<Collective>& collectives)
      : collectives_(collectives),
        kernels_(timeline),
        ends_(collectives, timeline.num_ranks),
        delays_(static_cast<size_t>(timeline.num_ranks)),
        sums_(static_cast<size_t>(timeline.num_ranks)),
        since_(static_cast<size_t>(timeline.num_ranks)) {
    blame_.ranks.resize(static_cast<size_t>(timeline.num_ranks));
    blame_.culprits.resize(collectives.size());
    if (const auto extent = run::extent(timeline)) {
      begin_ = extent->begin.nanoseconds();
      length_ = extent->end.nanoseconds() - begin_;
    }
  }

  DelayBlame propagate() {
    measure_windows();
    std::vector<size_t> order(collectives_.size());
    for (size_t c = 0; c < order.size(); ++c)
      order[c] = c;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return collectives_[a].last_begin() < collectives_[b].last_begin();
    });
    for (const size_t c : order)
      visit(c);
    judge();
    return std::move(blame_);
  }

 private:
  void measure_windows() {
    own_.resize(collectives_.size());
    std::vector<std::pair<size_t, size_t>> parts;
    std::vector<int64_t> scatter;
    for (size_t c = 0; c < collectives_.size(); ++c) {
      own_[c].resize(collectives_[c].parts.size());
      for (size_t p = 0; p < own_[c].size(); ++p)
        parts.emplace_back(c, p);
      if (collectives_[c].across_ranks() && !collectives_[c].is_message)
        scatter.push_back(collectives_[c].last_end() - collectives_[c].first_end());
    }
    const double end_scatter =
        scatter.empty() ? 0 : static_cast<double>(lower_median(std::move(scatter)));
    const auto part_at = [&](const auto& place) -> const CollectivePart& {
      return collectives_[place.first].parts[place.second];
    };
    std::stable_sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
      return part_at(a).begin < part_at(b).begin;
    });
    // Communication that begins together has one window, which counts once.
    std::vector<int64_t> counted(delays_.size(), INT64_MIN);
    for (const auto& place : parts) {
      const CollectivePart& part = part_at(place);
      int64_t& until = counted[static_cast<size_t>(part.rank)];
      const int64_t begin = std::max(ends_.before(part, std::min(begin_, part.begin)).time, until);
      OwnTime& own = own_[place.first][place.second];
      own = kernels_.before(part, begin);
      own.variance += end_scatter * end_scatter;
      until = std::max(until, part.begin);
    }
  }

  /// Whether the ranks' windows hold the same work: about as many kernels.
  static bool are_peers(const Collective& collective, const std::vector<OwnTime>& own) {
    if (collective.is_message || !collective.across_ranks()) return false;
    const auto [least, most] = std::minmax_element(
        own.begin(), own.end(),
        [](const OwnTime& a, const OwnTime& b) { return a.kernels < b.kernels; });
    return 4 * most->kernels <= 5 * least->kernels;
  }

  /// Whether the ranks were at the same kind of work, such as a step's backward pass.
  static bool are_comparable(const Collective& collective, const std::vector<OwnTime>& own) {
    if (collective.is_message) return false;
    const auto idles = [](const OwnTime& o) { return o.kernels == 0; };
    return std::none_of(own.begin(), own.end(), idles) ||
           std::all_of(own.begin(), own.end(), idles);
  }

  void visit(size_t c) {
    const Collective& collective = collectives_[c];
    const std::vector<OwnTime>& own = own_[c];
    const bool peers = are_peers(collective, own);
    int64_t usual = 0;
    double middle = 0;
    if (peers) {
      std::vector<int64_t> lengths;
      std::vector<double> real;
      for (const OwnTime& o : own) {
        lengths.push_back(o.length);
        real.push_back(static_cast<double>(o.length));
      }
      usual = lower_median(std::move(lengths));
      middle = median(std::move(real));
    }
    for (size_t p = 0; p < own.size(); ++p) {
      const CollectivePart& part = collective.parts[p];
      const int64_t delay = peers ? own[p].length - usual : own[p].excess();
      delays_[static_cast<size_t>(part.rank)][part.rank] += delay;
      Sum& sum = sums_[static_cast<size_t>(part.rank)];
      sum.delay += peers ? static_cast<double>(own[p].length) - middle : static_cast<double>(delay);
      sum.variance += own[p].variance;
      Since& since = since_[static_cast<size_t>(part.rank)];
      since.add(delay, own[p]);
      if (part.rank == collective.last_starter())
        blame_.culprits[c] = {.own_delay = since.delay,
                              .are_comparable = are_comparable(collective, own),
                              .kernels = since.own.kernel_excess,
                              .gaps = since.own.gap_excess,
                              .slowest = since.own.slowest};
    }
    if (!collective.across_ranks()) return;
    for (const CollectivePart& part : collective.parts)
      since_[static_cast<size_t>(part.rank)] = {};
    pass_on(collective, blame_.culprits[c]);
  }

  void pass_on(const Collective& collective, DelayBlame::Culprit& culprit) {
    const int32_t last = collective.last_starter();
    const Delays theirs = delays_[static_cast<size_t>(last)];
    Delays blamed;
    for (const CollectivePart& part : collective.parts) {
      if (part.rank == last) continue;
      const int64_t wait = collective.wait_of(part);
      const int64_t exposed = wait - kernels_.busy(part.rank, part.begin, part.begin + wait);
      if (exposed <= 0) continue;
      take_over(part.rank, theirs, exposed, 2 * exposed > wait, blamed);
    }
    for (const auto& [rank, time] : blamed) {
      blame_.ranks[static_cast<size_t>(rank)].blamed += time;
      if (time <= culprit.blamed) continue;
      culprit.rank = rank;
      culprit.blamed = time;
    }
  }

  /// `rank` waited `exposed` for one whose delays are `theirs`.
  void take_over(int32_t rank, const Delays& theirs, int64_t exposed, bool whole, Delays& blamed) {
    Delays& own = delays_[static_cast<size_t>(rank)];
    int64_t new_delays = 0;
    const auto more = [&](int32_t from, int64_t delay) {
      if (from == rank) return int64_t{0};
      const auto known = own.find(from);
      return std::max<int64_t>(0, delay - (known == own.end() ? 0 : known->second));
    };
    for (const auto& [from, delay] : theirs)
      new_delays += more(from, delay);
    if (new_delays == 0) return;
    const double share =
        std::min(1.0, static_cast<double>(exposed) / static_cast<double>(new_delays));
    Delays after = whole ? theirs : own;
    for (const auto& [from, delay] : theirs) {
      const int64_t time = std::llround(share * static_cast<double>(more(from, delay)));
      if (time == 0) continue;
      blamed[from] += time;
      if (!whole) after[from] += time;
    }
    own = std::move(after);
    while (own.size() > most_kept)
      own.erase(std::min_element(own.begin(), own.end(), [](const auto& a, const auto& b) {
        return std::abs(a.second) < std::abs(b.second);
      }));
  }

  void judge() {
    std::vector<double> all;
    for (size_t r = 0; r < sums_.size(); ++r)
      if (!delays_[r].empty()) all.push_back(sums_[r].delay);
    if (all.size() < 2) return;
    const auto others = static_cast<double>(all.size() - 1);
    const double middle = median(std::move(all));
    for (size_t r = 0; r < sums_.size(); ++r) {
      DelayBlame::Rank& rank = blame_.ranks[r];
      rank.delay = std::llround(sums_[r].delay);
      rank.beyond_noise =
          rank.blamed > 0 && sums_[r].delay - middle > times_noise * std::sqrt(sums_[r].variance) &&
          static_cast<double>(rank.blamed) > min_cost_share * others * static_cast<double>(length_);
    }
  }

  /// A rank's delays since it last met another rank.
  struct Since {
    int64_t delay = 0;
    OwnTime own;
    void add(int64_t more, const OwnTime& window) {
      delay += more;
      own.kernel_excess += window.kernel_excess;
      own.gap_excess += window.gap_excess;
      if (window.most_excess <= own.most_excess) return;
      own.most_excess = window.most_excess;
      own.slowest = window.slowest;
    }
  };
  struct Sum {
    double delay = 0, variance = 0;  // ns, ns^2
  };

  const std::vector<Collective>& collectives_;
  Kernels kernels_;
  CommunicationEnds ends_;
  int64_t begin_ = 0, length_ = 0;
  std::vector<std::vector<OwnTime>> own_;  // by collective and part
  std::vector<Delays> delays_;             // by rank
  std::vector<Sum> sums_;                  // by rank
  std::vector<Since> since_;               // by rank
  DelayBlame blame_;
};

}  // namespace

DelayBlame blame_delays(const run::Timeline& timeline, const std::vector<Collective>& collectives) {
  return Propagation(timeline, collectives).propagate();
}

}  // namespace triplepoint::metrics
