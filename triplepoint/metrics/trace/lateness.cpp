// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/lateness.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::metrics {
namespace {

using metrics::LateRanks;

/// Microseconds as long as these are few enough to read.
std::string time_text(int64_t ns) {
  const auto time = static_cast<double>(ns);
  if (ns < 100'000'000) return fmt::format("{:.1f} us", time / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.1f} ms", time / 1e6);
  return fmt::format("{:.2f} s", time / 1e9);
}

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

}  // namespace

std::string chain_text(const std::vector<std::string>& chain) {
  return fmt::format("{}", fmt::join(chain, " <- "));
}

std::vector<std::string> lateness_sentences(const LateRanks& late) {
  if (late.starts.empty())
    return {"No collective is seen on more than one rank, so lateness is unknown."};
  if (!late.straggler) {
    const bool together = std::all_of(late.starts.begin(), late.starts.end(),
                                      [](const auto& start) { return start.start_spread == 0; });
    const char* who = late.has_all_ranks ? "No rank" : "None of the ranks given";
    return {fmt::format("{} is late: {}.", who,
                        together ? "all ranks begin their collectives together"
                                 : "no rank's own delays are beyond the noise")};
  }
  const metrics::RankLateness& worst = of_rank(late, *late.straggler);
  std::vector<std::string> lines = {
      fmt::format("Rank {} is the straggler{}: last into {} of {} collectives; its delays cost all "
                  "others together {}.",
                  worst.rank, late.has_all_ranks ? "" : " of the ranks given", worst.times_last,
                  worst.collectives, time_text(worst.blamed))};
  if (const std::string why = worst_lateness(late, worst.rank); !why.empty())
    lines.push_back("Its worst lateness: " + why + ".");
  if (late.naive_straggler && *late.naive_straggler != worst.rank)
    lines.push_back(naive_reading(of_rank(late, *late.naive_straggler), worst));
  return lines;
}

}  // namespace triplepoint::metrics
