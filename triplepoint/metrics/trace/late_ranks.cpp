// SPDX-License-Identifier: Apache-2.0
// Which rank the others wait for (definitions: late_ranks.h). Clocks have to agree first: an offset
// would look like lateness.
#include "triplepoint/metrics/trace/late_ranks.h"

#include <algorithm>
#include <map>

#include "triplepoint/metrics/trace/delay_blame.h"

namespace triplepoint::metrics {
namespace {

constexpr int64_t min_lateness_ns = 1000;  // ns; smaller lateness is not explained
constexpr double min_cause_share = 0.25;   // of the waiting; a smaller part is not its cause

class LateWatcher {
 public:
  explicit LateWatcher(const SpanList& spans) : spans_(spans) {}

  LateRanks watch(const CollectiveMatch& match) {
    for (int32_t i = 0; i < spans_.size(); ++i)
      if (spans_.type(i).kind == run::SpanKind::communication)
        of(spans_.rank(i)).in_communication += spans_.duration(i);
    const DelayBlame blame = blame_delays(spans_, match);
    for (size_t i = 0; i < match.collectives.size(); ++i)
      if (match.collectives[i].across_ranks()) take(match.collectives[i], i, blame.culprits[i]);
    LateRanks result = finish(blame);
    result.has_all_ranks = match.has_all_ranks;
    result.mismatch = match.mismatch;
    return result;
  }

 private:
  RankLateness& of(int32_t rank) {
    RankLateness& lateness = ranks_[rank];
    lateness.rank = rank;
    return lateness;
  }

  void take(const Collective& collective, size_t index, const DelayBlame::Culprit& culprit) {
    LateStart start{.collective = index,
                    .rank = collective.last_starter(),
                    .start_spread = collective.last_begin() - collective.first_begin(),
                    .end_spread = collective.last_end() - collective.first_end(),
                    .shortest = INT64_MAX,
                    .culprit = culprit.rank,
                    .own_delay = culprit.own_delay,
                    .kernels = culprit.kernels,
                    .gaps = culprit.gaps,
                    .slowest = culprit.slowest,
                    .unshared = culprit.unshared,
                    .are_comparable = culprit.are_comparable};
    int64_t second = collective.first_begin();
    for (const CollectivePart& part : collective.parts) {
      const int64_t wait = collective.wait_of(part);
      if (part.rank != start.rank) start.waits += wait;
      start.shortest = std::min(start.shortest, part.duration());
      start.longest = std::max(start.longest, part.duration());
      if (part.rank != start.rank) second = std::max(second, part.begin);
      of(part.rank).waited += wait;
      ++of(part.rank).collectives;
    }
    start.lead = collective.last_begin() - second;
    start.by_order = start.start_spread > min_lateness_ns &&
                     waits_for_schedule(collective, spans_) &&
                     as_real(culprit.blamed) <= min_cause_share * as_real(start.waits);
    RankLateness& late = of(start.rank);
    start.is_first = late.collectives == 1 && !spans_.timeline().details.empty();
    if (!start.is_first && start.lead > 0) {
      ++late.times_last;
      late.caused += start.waits;
      late.alone += start.lead;
    }
    starts_.push_back(start);
  }

  LateRanks finish(const DelayBlame& blame) {
    LateRanks result{.starts = std::move(starts_)};
    const RankLateness* worst = nullptr;
    const RankLateness* busiest = nullptr;
    for (const DelayBlame::Rank& of_rank : blame.ranks)
      result.untimed += of_rank.untimed;
    for (auto& [rank, lateness] : ranks_) {
      const DelayBlame::Rank& of_rank = blame.ranks[as_size(rank)];
      lateness.blamed = of_rank.blamed;
      lateness.delay = of_rank.delay;
      lateness.beyond_noise = of_rank.beyond_noise;
      if (of_rank.beyond_noise && (worst == nullptr || lateness.blamed > worst->blamed))
        worst = &lateness;
      if (busiest == nullptr || lateness.in_communication > busiest->in_communication)
        busiest = &lateness;
      result.ranks.push_back(lateness);
    }
    if (worst != nullptr) result.straggler = worst->rank;
    if (busiest != nullptr && busiest->in_communication > 0 && ranks_.size() > 1)
      result.naive_straggler = busiest->rank;
    return result;
  }

  const SpanList& spans_;
  std::map<int32_t, RankLateness> ranks_;
  std::vector<LateStart> starts_;
};

}  // namespace

int64_t LateRanks::waits() const {
  return sum_of(starts, &LateStart::waits);
}

std::string time_text(int64_t nanoseconds) {
  const auto time = as_real(nanoseconds);
  if (nanoseconds < 1'000'000) return fmt::format("{:.1f} us", time / 1e3);
  if (nanoseconds < 1'000'000'000) return fmt::format("{:.2f} ms", time / 1e6);
  return fmt::format("{:.2f} s", time / 1e9);
}

std::string cause_text(const LateStart& start, const SpanList& spans) {
  if (start.start_spread <= min_lateness_ns) return "";
  if (start.is_first) return "its first one in the trace: the profiler may have begun later";
  if (start.by_order) return "order of the pipeline, as far as ranks of the trace tell";
  const bool is_late_itself = start.own_delay >= min_lateness_ns;
  if (start.culprit >= 0 && (start.culprit != start.rank || !is_late_itself))
    return fmt::format("delays of rank {} before it", start.culprit);
  if (!is_late_itself) return start.are_comparable ? "" : "the ranks do different work before it";
  if (start.gaps > start.kernels)
    return fmt::format("device without work for {} longer",
                       time_text(std::min(start.gaps, start.own_delay)));
  if (start.unshared > std::max<int64_t>(0, start.kernels)) return "work that no other rank has";
  if (start.kernels <= 0) return "";
  std::string text = fmt::format("kernels took {} longer than the same ones elsewhere",
                                 time_text(std::min(start.kernels, start.own_delay)));
  if (start.slowest >= 0) text += ", most of it in " + spans.type(start.slowest).name;
  return text;
}

LateRanks find_late_ranks(const SpanList& spans, const CollectiveMatch& match) {
  return LateWatcher(spans).watch(match);
}

LateRanks find_late_ranks(const run::Timeline& timeline, const CollectiveMatch& match) {
  return find_late_ranks(SpanList(timeline), match);
}

}  // namespace triplepoint::metrics
