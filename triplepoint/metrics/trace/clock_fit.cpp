// SPDX-License-Identifier: Apache-2.0
// Offsets between the clocks of ranks, from the ends of collectives (model: clock_fit.h).
//
// Ends, not begins: a rank begins a collective when it is ready, but all leave it together, so an
// end is the nearest thing to a common instant that a trace holds. Two sets of unknowns, offsets
// and common ends, are improved in turn, each being a median of the other's residuals. No round
// raises the sum of absolute residuals, and, unlike least squares, is not moved by collectives
// whose ranks leave at different times.
//
// Cost: rounds times ends, with a median each; it usually stops after few rounds, as medians of
// integers repeat. Holds for constant offsets: drift between clocks stays in the residuals.
#include "triplepoint/metrics/trace/clock_fit.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "triplepoint/base/statistics.h"

namespace triplepoint::metrics {

namespace {

constexpr int most_rounds = 50;

class Fitter {
 public:
  explicit Fitter(const std::vector<Collective>& collectives) {
    for (const Collective& collective : collectives) {
      for (const CollectivePart& part : collective.parts)
        offset_.try_emplace(part.rank, 0);
      if (collective.across_ranks()) anchors_.push_back(&collective);
    }
  }

  ClockFit fit() {
    for (int round = 0; round < most_rounds; ++round)
      if (!improve()) break;
    return result();
  }

 private:
  int64_t common_end(const Collective& collective) const {
    std::vector<int64_t> ends;
    for (const CollectivePart& part : collective.parts)
      ends.push_back(part.end - offset_.at(part.rank));
    return lower_median(std::move(ends));
  }

  /// Distance of each rank's ends from the common ones, offsets not taken out.
  std::map<int32_t, std::vector<int64_t>> distances() const {
    std::map<int32_t, std::vector<int64_t>> of_rank;
    for (const Collective* collective : anchors_) {
      const int64_t end = common_end(*collective);
      for (const CollectivePart& part : collective->parts)
        of_rank[part.rank].push_back(part.end - end);
    }
    return of_rank;
  }

  bool improve() {
    std::map<int32_t, int64_t> better = offset_;
    std::vector<int64_t> all;
    for (auto& [rank, distances] : distances()) {
      better[rank] = lower_median(std::move(distances));
      all.push_back(better[rank]);
    }
    if (all.empty()) return false;
    // Adding one number to all offsets changes no residual; the median at 0 fixes that freedom.
    const int64_t middle = lower_median(std::move(all));
    for (auto& [rank, offset] : better)
      offset -= middle;
    const bool changed = better != offset_;
    offset_ = std::move(better);
    return changed;
  }

  ClockFit result() const {
    ClockFit fit{.anchors = static_cast<int64_t>(anchors_.size())};
    std::vector<int64_t> all;
    const auto of_rank = distances();
    for (const auto& [rank, offset] : offset_) {
      RankClock clock{.rank = rank};
      if (const auto found = of_rank.find(rank); found != of_rank.end()) {
        clock.offset = offset;
        std::vector<int64_t> residuals;
        for (int64_t distance : found->second)
          residuals.push_back(std::abs(distance - offset));
        all.insert(all.end(), residuals.begin(), residuals.end());
        clock.anchors = static_cast<int64_t>(residuals.size());
        clock.residual = lower_median(std::move(residuals));
      }
      fit.ranks.push_back(clock);
    }
    if (all.empty()) return fit;
    fit.worst_residual = *std::max_element(all.begin(), all.end());
    fit.residual = lower_median(std::move(all));
    return fit;
  }

  std::vector<const Collective*> anchors_;
  std::map<int32_t, int64_t> offset_;
};

}  // namespace

bool ClockFit::clocks_differ(int64_t noise) const {
  // Within its scatter an offset cannot be told from ranks that leave one after the other.
  constexpr int64_t times_scatter = 5;
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankClock& clock) {
    return std::abs(clock.offset) > std::max(noise, times_scatter * residual);
  });
}

ClockFit fit_clocks(const std::vector<Collective>& collectives) {
  return Fitter(collectives).fit();
}

run::Timeline align_clocks(run::Timeline timeline, const ClockFit& fit) {
  std::map<int32_t, int64_t> offsets;
  for (const RankClock& clock : fit.ranks)
    offsets[clock.rank] = clock.offset;
  const auto shifted = [&](Instant when, int32_t rank) {
    const auto found = offsets.find(rank);
    return found == offsets.end() ? when : Instant(when.nanoseconds() - found->second);
  };
  for (run::Span& span : timeline.spans) {
    span.begin = shifted(span.begin, span.rank);
    span.end = shifted(span.end, span.rank);
  }
  for (run::PatternInstance& instance : timeline.instances)
    instance.begin = shifted(instance.begin, instance.rank);
  return timeline;  // a rank's order does not change
}

}  // namespace triplepoint::metrics
