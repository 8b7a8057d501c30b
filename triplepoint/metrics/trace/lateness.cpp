// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/lateness.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::metrics {
namespace {

using metrics::LateRanks;

const metrics::RankLateness& of_rank(const LateRanks& late, int32_t rank) {
  return *std::find_if(late.ranks.begin(), late.ranks.end(),
                       [&](const auto& r) { return r.rank == rank; });
}

std::string worst_lateness(const LateRanks& late, int32_t rank) {
  const metrics::LateStart* longest = nullptr;
  for (const metrics::LateStart& start : late.starts)
    if (start.rank == rank && start.culprit == rank && start.own_delay > 0 && !start.by_order &&
        !start.chain.empty() && (longest == nullptr || start.own_delay > longest->own_delay))
      longest = &start;
  return longest == nullptr ? "" : chain_text(longest->chain);
}

std::string naive_reading(const metrics::RankLateness& naive, const metrics::RankLateness& worst) {
  return fmt::format(
      "By communication time alone rank {} looks slowest, with {} against {} of rank {}; {} of "
      "that is waiting for others.",
      naive.rank, time_text(naive.in_communication), time_text(worst.in_communication), worst.rank,
      time_text(naive.waited));
}

std::vector<std::string> no_straggler(const LateRanks& late) {
  if (late.by_cost)
    return {"No GPU, link or host slows the step by 1 % or more" +
            (late.busiest_stage
                 ? fmt::format("; most waiting is for stage {}, which has more work.",
                               *late.busiest_stage)
                 : std::string("."))};
  if (late.starts.empty())
    return {"No collective is seen on more than one rank, so lateness is unknown."};
  const bool together = std::all_of(late.starts.begin(), late.starts.end(),
                                    [](const auto& start) { return start.start_spread == 0; });
  return {fmt::format("{} is late: {}.", late.has_all_ranks ? "No rank" : "None of the ranks given",
                      together ? "all ranks begin their collectives together"
                               : "no rank's own delays are beyond the noise")};
}

/// Ranks of the devices that a pace setter names, slowest first.
std::vector<int32_t> ranks_of(const run::PaceSetter& setter, const run::Run& run) {
  std::vector<int32_t> ranks;
  for (const int32_t who : setter.who)
    for (const run::Device& device : run.devices)
      if (device.rank && who == (setter.of_nodes ? device.node : device.index))
        ranks.push_back(*device.rank);
  return ranks;
}

/// Where one rank stands for its tensor group, the one before it.
const RankLateness* shown_for(const LateRanks& late, int32_t rank) {
  const RankLateness* shown = nullptr;
  for (const RankLateness& row : late.ranks)
    if (row.rank <= rank) shown = &row;
  return shown;
}

}  // namespace

void judge_by_cost(LateRanks& late, const run::Run& run, const Metrics& metrics) {
  if (run.manifest.origin != run::Origin::simulated) return;
  late.by_cost = true;
  late.straggler.reset();
  const bool uneven = !metrics.stragglers.empty() && metrics.stragglers.front().cause == more_work;
  if (metrics.pace_setters.empty()) {
    if (uneven) late.busiest_stage = metrics.stragglers.front().stage;
    return;
  }
  const int32_t first = metrics.stragglers.empty() ? -1 : metrics.stragglers.front().rank;
  for (const int32_t rank : ranks_of(metrics.pace_setters.front(), run)) {
    const RankLateness* shown = shown_for(late, rank);
    if (shown == nullptr || (late.straggler && shown->rank != first)) continue;
    late.straggler = shown->rank;
    late.stands_for = shown->rank == rank ? std::nullopt : std::optional(rank);
    if (shown->rank == first) return;
  }
}

std::string chain_text(const std::vector<std::string>& chain) {
  return fmt::format("{}", fmt::join(chain, " <- "));
}

std::vector<std::string> lateness_sentences(const LateRanks& late) {
  if (!late.straggler) return no_straggler(late);
  if (late.starts.empty()) return {};
  const metrics::RankLateness& worst = of_rank(late, *late.straggler);
  std::vector<std::string> lines = {fmt::format(
      "Rank {}{} is the straggler{}: last into {} of {} collectives; its delays cost all "
      "others together {}.",
      worst.rank,
      late.stands_for ? fmt::format(", shown for rank {} of its group,", *late.stands_for) : "",
      late.has_all_ranks ? "" : " of the ranks given", worst.times_last, worst.collectives,
      time_text(worst.blamed))};
  if (const std::string why = worst_lateness(late, worst.rank); !why.empty())
    lines.push_back("Its worst lateness: " + why + ".");
  if (late.naive_straggler && *late.naive_straggler != worst.rank)
    lines.push_back(naive_reading(of_rank(late, *late.naive_straggler), worst));
  return lines;
}

}  // namespace triplepoint::metrics
