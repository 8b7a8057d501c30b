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
#include <numeric>
#include <span>
#include <tuple>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/issued.h"

#include "triplepoint/metrics/trace/own_time.h"

namespace triplepoint::metrics {
namespace {

constexpr double times_noise = 6;         // of the sums of delays
constexpr double min_cost_share = 0.005;  // of the timeline; a smaller cost is not reported
constexpr double steady_cost_share = 0.02;
constexpr double fewest_windows = 20;  // that show that a rank is late again and again
constexpr double steady_errors = 5;    // standard errors of the mean of its delays
constexpr size_t most_kept = 16;       // delays of other ranks that a rank carries

/// What a rank's present lag consists of: nanoseconds by the rank they come from.
using Delays = std::map<int32_t, int64_t>;

/// Collectives of which stamps are left out, as far as those of their other ranks tell.
class LeftOut {
 public:
  LeftOut(const SpanList& spans, const CollectiveMatch& match) : spans_(spans) {
    for (int32_t i = 0; i < spans.size(); ++i) {
      const run::SpanDetail* const detail = spans.detail(i);
      if (detail != nullptr && detail->communicator >= 0 && detail->sequence >= 0 &&
          run::is_untimed(spans.type(i)) && spans.type(i).collective != spec::Collective::send_recv)
        spans_of_[{detail->communicator, detail->sequence}].push_back(i);
    }
    if (spans_of_.empty()) return;
    for (const Collective& one : match.collectives)
      if (one.across_ranks()) transfers_[kind_of(one)].push_back(*one.transfer());
    collectives = match.collectives;
    for (Collective& one : collectives)
      complete(one);
  }

  std::vector<Collective> collectives;  // empty: nothing is left out
  std::map<int32_t, int64_t> ended;     // ns, by span

 private:
  using Kind = std::tuple<std::string_view, int32_t, Bytes>;
  static Kind kind_of(const Collective& one) { return {one.label, one.group_size, one.size}; }

  /// A collective ends on all of its ranks at once. Where it took longer than usual after all
  /// others had begun, the one rank that is not seen began last; else it began as the others.
  void complete(Collective& one) {
    const auto found = spans_of_.find({one.communicator, one.sequence});
    if (one.is_message || found == spans_of_.end()) return;
    const int64_t end = one.last_end();
    for (const int32_t span : found->second)
      ended[span] = end;
    const auto usual = transfers_.find(kind_of(one));
    const bool is_one =
        found->second.size() == 1 && static_cast<int32_t>(one.parts.size()) + 1 == one.group_size;
    if (!is_one || usual == transfers_.end()) return;
    const int32_t span = found->second.front(), rank = spans_.rank(span);
    const int64_t transfer = lower_median(usual->second), latest = end - transfer;
    std::vector<int64_t> begins = mapped(one.parts, &CollectivePart::begin);
    const bool is_late = latest > one.last_begin() + transfer / 2;
    const int64_t begin = is_late ? latest : lower_median(std::move(begins));
    one.parts.insert(std::ranges::upper_bound(one.parts, rank, {}, &CollectivePart::rank),
                     {rank, span, begin, end});
  }

  const SpanList& spans_;
  std::map<std::pair<int32_t, int64_t>, std::vector<int32_t>> spans_of_;  // communicator, number
  std::map<Kind, std::vector<int64_t>> transfers_;                        // ns
};

class Propagation {
 public:
  Propagation(const SpanList& spans, const CollectiveMatch& match)
      : spans_(spans),
        match_(match),
        left_out_(spans, match),
        collectives_(left_out_.collectives.empty() ? match.collectives : left_out_.collectives),
        kernels_(spans, left_out_.ended),
        delays_(as_size(spans.timeline().num_ranks)),
        sums_(delays_.size()),
        since_(delays_.size()),
        alone_(delays_.size()),
        next_alone_(delays_.size(), 0) {
    blame_.ranks.resize(delays_.size());
    blame_.culprits.resize(collectives_.size());
    if (const auto extent = run::extent(spans.timeline())) {
      begin_ = extent->begin.nanoseconds();
      length_ = extent->end.nanoseconds() - begin_;
    }
  }

  DelayBlame propagate() {
    std::vector<size_t> order(collectives_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      return collectives_[a].last_begin() < collectives_[b].last_begin();
    });
    measure_windows(order);
    for (const size_t c : order)
      visit(c);
    for (size_t rank = 0; rank < alone_.size(); ++rank)
      visit_alone(rank);
    judge();
    return std::move(blame_);
  }

 private:
  /// Communication of one rank: a part of a collective, or of one that it shows alone.
  struct Communication {
    CollectivePart part;
    int32_t collective = -1;  // -1: alone
    int32_t place = 0;        // among its parts; of those alone, among these
  };
  /// A rank's delays since it last met another rank.
  struct Since {
    int64_t delay = 0;
    OwnTime own;
    void add(int64_t more, const OwnTime& window) {
      delay += more;
      own.kernel_excess += window.kernel_excess;
      own.gap_excess += window.gap_excess;
      own.unshared += window.unshared;
      if (window.most_excess <= own.most_excess) return;
      own.most_excess = window.most_excess;
      own.slowest = window.slowest;
    }
  };
  struct Sum {
    double delay = 0, variance = 0;  // ns, ns^2
    // Of windows before collectives that others take part in.
    double windows = 0, shared = 0, squares = 0;

    void add_shared(double more) {
      windows += 1;
      shared += more;
      squares += more * more;
    }
    /// The mean over its standard error, beyond `usual` for all windows.
    double steadiness(double usual) const {
      if (windows < fewest_windows) return 0;
      const double mean = shared / windows;
      const double error = std::sqrt((squares / windows - mean * mean) / (windows - 1));
      return (mean - usual / windows) / error;
    }
  };

  /// What a rank's windows before communication that it shows alone add up to, between two
  /// collectives that it shares.
  struct AloneWindows {
    int64_t delay = 0;
    double variance = 0;
    OwnTime own;
    bool any = false;
  };

  std::vector<std::vector<Communication>> communication_of_ranks() const {
    std::vector<std::vector<Communication>> all(delays_.size());
    for (size_t c = 0; c < collectives_.size(); ++c)
      for (size_t p = 0; p < collectives_[c].parts.size(); ++p) {
        const CollectivePart& part = collectives_[c].parts[p];
        all[as_size(part.rank)].push_back({part, static_cast<int32_t>(c), static_cast<int32_t>(p)});
      }
    return all;
  }

  /// Whether one comes before the other in the list of all collectives.
  bool is_listed_before(const Communication& a, const Communication& b) const {
    if (a.collective >= 0 && b.collective >= 0) return a.collective < b.collective;
    if (a.collective < 0 && b.collective < 0) return a.place < b.place;
    const bool first_alone = a.collective < 0;
    const auto shared = as_size(first_alone ? b.collective : a.collective);
    const int32_t alone = first_alone ? a.part.span : b.part.span;
    return comes_before(spans_, alone, collectives_[shared]) == first_alone;
  }

  /// All of a rank's, by begin, those that begin together as they are listed.
  void add_alone(std::vector<Communication>& own, std::span<const int32_t> alone) const {
    for (const int32_t i : alone)
      own.push_back({.part = {spans_.rank(i), i, spans_.begin(i), spans_.end(i)},
                     .place = static_cast<int32_t>(own.size())});
    std::ranges::stable_sort(own, [&](const Communication& a, const Communication& b) {
      if (a.part.begin != b.part.begin) return a.part.begin < b.part.begin;
      return is_listed_before(a, b);
    });
  }

  double end_scatter() const {
    std::vector<int64_t> scatter;
    for (const Collective& collective : collectives_)
      if (collective.across_ranks() && !collective.is_message)
        scatter.push_back(collective.last_end() - collective.first_end());
    return scatter.empty() ? 0 : as_real(lower_median(std::move(scatter)));
  }

  void measure_windows(const std::vector<size_t>& order) {
    own_.resize(collectives_.size());
    for (size_t c = 0; c < collectives_.size(); ++c)
      own_[c].resize(collectives_[c].parts.size());
    std::vector<std::vector<size_t>> visits(delays_.size());  // collectives of each rank
    for (const size_t c : order)
      for (const CollectivePart& part : collectives_[c].parts)
        visits[as_size(part.rank)].push_back(c);
    std::vector<std::vector<Communication>> shared = communication_of_ranks();
    std::vector<std::vector<int32_t>> alone(delays_.size());
    for (const int32_t i : match_.alone)
      alone[as_size(spans_.rank(i))].push_back(i);
    const double scatter = end_scatter();
    for (size_t rank = 0; rank < delays_.size(); ++rank) {
      add_alone(shared[rank], alone[rank]);
      measure_windows_of(shared[rank], visits[rank], scatter * scatter);
      shared[rank] = {};
    }
  }

  /// Of one rank.
  void measure_windows_of(const std::vector<Communication>& all, const std::vector<size_t>& visits,
                          double variance) {
    std::vector<int64_t> ends = mapped(all, [](const Communication& one) { return one.part.end; });
    std::ranges::sort(ends);
    // Communication that begins together has one window, which counts once.
    int64_t until = INT64_MIN;
    size_t visit = 0;
    for (const Communication& one : all) {
      const auto after = std::ranges::upper_bound(ends, one.part.begin);
      const bool is_first = after == ends.begin();
      const int64_t before = is_first ? first_of(one.part) : *(after - 1);
      OwnTime own = kernels_.before(one.part, std::max(before, until));
      own.is_first = is_first && !spans_.timeline().details.empty();
      own.variance += variance;
      until = std::max(until, one.part.begin);
      if (one.collective >= 0) {
        own_[as_size(one.collective)][as_size(one.place)] = own;
        continue;
      }
      while (visit < visits.size() && is_visited_before(visits[visit], one))
        ++visit;
      add_alone_window(as_size(one.part.rank), visit, own);
    }
  }

  /// A profiler may begin later on one rank than on others, so what it shows of a rank begins with
  /// the rank's first kernel. Simulated timelines begin together.
  int64_t first_of(const CollectivePart& part) const {
    const int64_t first =
        spans_.timeline().details.empty() ? begin_ : kernels_.first_seen(part.rank);
    return std::min(first, part.begin);
  }

  bool is_visited_before(size_t collective, const Communication& alone) const {
    const int64_t time = collectives_[collective].last_begin();
    if (time != alone.part.begin) return time < alone.part.begin;
    return !comes_before(spans_, alone.part.span, collectives_[collective]);
  }

  void add_alone_window(size_t rank, size_t visit, const OwnTime& own) {
    std::vector<AloneWindows>& of_rank = alone_[rank];
    of_rank.resize(std::max(of_rank.size(), visit + 1));
    blame_.ranks[rank].untimed += own.is_untimed;
    AloneWindows& windows = of_rank[visit];
    windows.any = true;
    windows.delay += own.excess();
    windows.variance += own.variance;
    Since since{0, windows.own};
    since.add(own.excess(), own);
    windows.own = since.own;
  }

  /// The windows of a rank up to the next collective that it shares.
  void visit_alone(size_t rank) {
    const size_t place = next_alone_[rank]++;
    if (place >= alone_[rank].size() || !alone_[rank][place].any) return;
    const AloneWindows& windows = alone_[rank][place];
    delays_[rank][static_cast<int32_t>(rank)] += windows.delay;
    sums_[rank].delay += as_real(windows.delay);
    sums_[rank].variance += windows.variance;
    since_[rank].add(windows.delay, windows.own);
  }

  /// Whether the ranks' windows hold the same work: about as many kernels.
  static bool are_peers(const Collective& collective, const std::vector<OwnTime>& own) {
    if (collective.is_message || !collective.across_ranks()) return false;
    if (std::ranges::any_of(own, &OwnTime::is_first)) return false;
    int64_t least = INT64_MAX, most = 0;
    for (const OwnTime& one : own) {
      if (one.is_untimed) continue;
      least = std::min(least, one.kernels);
      most = std::max(most, one.kernels);
    }
    return least != INT64_MAX && 4 * most <= 5 * least;
  }

  /// Whether the ranks were at the same kind of work, such as a step's backward pass.
  static bool are_comparable(const Collective& collective, const std::vector<OwnTime>& own) {
    if (collective.is_message) return false;
    const auto idles = [](const OwnTime& o) { return o.kernels == 0; };
    return std::ranges::none_of(own, idles) || std::ranges::all_of(own, idles);
  }

  void visit(size_t c) {
    const Collective& collective = collectives_[c];
    const std::vector<OwnTime>& own = own_[c];
    for (const CollectivePart& part : collective.parts)
      visit_alone(as_size(part.rank));
    const bool peers = are_peers(collective, own);
    int64_t usual = 0;
    double middle = 0;
    if (peers) {
      std::vector<int64_t> lengths;
      std::vector<double> real;
      for (const OwnTime& o : own) {
        if (o.is_untimed) continue;
        lengths.push_back(o.length);
        real.push_back(as_real(o.length));
      }
      usual = lower_median(std::move(lengths));
      middle = median(std::move(real));
    }
    for (size_t p = 0; p < own.size(); ++p) {
      const CollectivePart& part = collective.parts[p];
      const bool by_length = peers && !own[p].is_untimed;
      blame_.ranks[as_size(part.rank)].untimed += own[p].is_untimed;
      const int64_t delay = by_length ? own[p].length - usual : own[p].excess();
      delays_[as_size(part.rank)][part.rank] += delay;
      Sum& sum = sums_[as_size(part.rank)];
      const double more = by_length ? as_real(own[p].length) - middle : as_real(delay);
      sum.delay += more;
      if (collective.across_ranks()) sum.add_shared(more);
      sum.variance += own[p].variance;
      Since& since = since_[as_size(part.rank)];
      since.add(delay, own[p]);
      if (part.rank == collective.last_starter())
        blame_.culprits[c] = {.own_delay = since.delay,
                              .are_comparable = are_comparable(collective, own),
                              .kernels = since.own.kernel_excess,
                              .gaps = since.own.gap_excess,
                              .slowest = since.own.slowest,
                              .unshared = since.own.unshared};
    }
    if (!collective.across_ranks()) return;
    for (const CollectivePart& part : collective.parts)
      since_[as_size(part.rank)] = {};
    pass_on(collective, blame_.culprits[c]);
  }

  void pass_on(const Collective& collective, DelayBlame::Culprit& culprit) {
    const int32_t last = collective.last_starter();
    const Delays theirs = delays_[as_size(last)];
    Delays blamed;
    for (const CollectivePart& part : collective.parts) {
      if (part.rank == last) continue;
      const int64_t wait = collective.wait_of(part);
      const int64_t exposed = wait - kernels_.busy(part.rank, part.begin, part.begin + wait);
      if (exposed <= 0) continue;
      take_over(part.rank, theirs, exposed, 2 * exposed > wait, blamed);
    }
    for (const auto& [rank, time] : blamed) {
      blame_.ranks[as_size(rank)].blamed += time;
      if (time <= culprit.blamed) continue;
      culprit.rank = rank;
      culprit.blamed = time;
    }
  }

  /// `rank` waited `exposed` for one whose delays are `theirs`.
  void take_over(int32_t rank, const Delays& theirs, int64_t exposed, bool whole, Delays& blamed) {
    Delays& own = delays_[as_size(rank)];
    int64_t new_delays = 0;
    const auto more = [&](int32_t from, int64_t delay) {
      if (from == rank) return int64_t{0};
      return std::max<int64_t>(0, delay - value_at(own, from).value_or(0));
    };
    for (const auto& [from, delay] : theirs)
      new_delays += more(from, delay);
    if (new_delays == 0) return;
    const double share = std::min(1.0, as_real(exposed) / as_real(new_delays));
    Delays after = whole ? theirs : own;
    for (const auto& [from, delay] : theirs) {
      const int64_t time = std::llround(share * as_real(more(from, delay)));
      if (time == 0) continue;
      blamed[from] += time;
      if (!whole) after[from] += time;
    }
    own = std::move(after);
    while (own.size() > most_kept)
      own.erase(std::ranges::min_element(own, [](const auto& a, const auto& b) {
        return std::abs(a.second) < std::abs(b.second);
      }));
  }

  void judge() {
    std::vector<double> all;
    for (size_t r = 0; r < sums_.size(); ++r)
      if (!delays_[r].empty()) all.push_back(sums_[r].delay);
    if (all.size() < 2) return;
    const auto others = as_real(all.size() - 1);
    const double middle = median(std::move(all));
    for (size_t r = 0; r < sums_.size(); ++r) {
      DelayBlame::Rank& rank = blame_.ranks[r];
      rank.delay = std::max<int64_t>(0, std::llround(sums_[r].delay));
      const double cost = as_real(rank.blamed) / others / as_real(length_);
      const bool is_large = sums_[r].delay - middle > times_noise * std::sqrt(sums_[r].variance);
      const bool is_steady = sums_[r].steadiness(middle) > steady_errors;
      rank.beyond_noise =
          (is_large && cost > min_cost_share) || (is_steady && cost > steady_cost_share);
    }
  }

  const SpanList& spans_;
  const CollectiveMatch& match_;
  const LeftOut left_out_;
  const std::vector<Collective>& collectives_;
  RankKernels kernels_;
  int64_t begin_ = 0, length_ = 0;
  std::vector<std::vector<OwnTime>> own_;  // by collective and part
  std::vector<Delays> delays_;             // by rank
  std::vector<Sum> sums_;                  // by rank
  std::vector<Since> since_;               // by rank
  // By rank: before each collective that it shares, in the order of their visits, and at the end.
  std::vector<std::vector<AloneWindows>> alone_;
  std::vector<size_t> next_alone_;  // by rank
  DelayBlame blame_;
};

}  // namespace

DelayBlame blame_delays(const SpanList& spans, const CollectiveMatch& match) {
  return Propagation(spans, match).propagate();
}

}  // namespace triplepoint::metrics
