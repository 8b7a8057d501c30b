// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/run/store.h"

#include "triplepoint/cli/trace_analyses.h"
#include "triplepoint/cli/trace_input.h"
#include "triplepoint/metrics/clock_fit.h"
#include "triplepoint/metrics/late_ranks.h"

namespace triplepoint::cli {
namespace {

using metrics::LateRanks;

std::string in_us(int64_t ns) {
  return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
}

DataTable rank_table(const LateRanks& late) {
  DataTable table{.name = "ranks", .title = "Who was waited for, by rank"};
  table.columns = {{"rank", "rank"},
                   {"collectives", "collectives"},
                   {"times_last", "times last", 1, 0, true},
                   {"caused_ns", "others waited us", 1e3, 1, true},
                   {"alone_ns", "later than 2nd us", 1e3, 1, true},
                   {"waited_ns", "waited itself us", 1e3, 1, true},
                   {"communication_ns", "in comm kernels us", 1e3, 1, true}};
  for (const metrics::RankLateness& rank : late.ranks)
    table.add({int64_t{rank.rank}, rank.collectives, rank.times_last, rank.caused, rank.alone,
               rank.waited, rank.in_communication});
  return table;
}

std::string joined(const std::vector<std::string>& chain) {
  return chain.empty() ? "" : fmt::format("{}", fmt::join(chain, " <- "));
}

DataTable start_table(const LateRanks& late, const metrics::CollectiveMatch& match) {
  DataTable table{.name = "collectives",
                  .title = "Collectives: who began last, and why (cause <- what is behind it)"};
  table.columns = {{"number", "#"},
                   {"collective", "collective"},
                   {"begin_ns", "begin ms", 1e6, 3},
                   {"start_spread_ns", "start spread us", 1e3, 1},
                   {"end_spread_ns", "end spread us", 1e3, 1},
                   {"kernel_min_ns", "kernel min us", 1e3, 1},
                   {"kernel_max_ns", "max us", 1e3, 1},
                   {"last_rank", "last rank"},
                   {"lead_ns", "after 2nd us", 1e3, 1},
                   {"cause", "cause"}};
  for (size_t i = 0; i < late.starts.size(); ++i) {
    const metrics::LateStart& start = late.starts[i];
    const metrics::Collective& collective = match.collectives[start.collective];
    table.add({static_cast<int64_t>(i + 1), std::string(collective.label), collective.first_begin(),
               start.start_spread, start.end_spread, start.shortest, start.longest,
               int64_t{start.rank}, start.lead,
               start.chain.empty() ? DataCell(Missing{"not later than 1 us, or nothing to compare"})
                                   : DataCell(joined(start.chain))});
  }
  return table;
}

DataTable clock_table(const metrics::ClockFit& fit) {
  DataTable table{.name = "clocks",
                  .title = "Clocks, from the ends of collectives (offset to the median rank)"};
  table.columns = {{"rank", "rank"},
                   {"offset_ns", "offset us", 1e3, 3, true},
                   {"residual_ns", "residual us", 1e3, 3, true},
                   {"anchors", "anchors"}};
  for (const metrics::RankClock& clock : fit.ranks)
    table.add({int64_t{clock.rank},
               clock.anchors > 0 ? DataCell(clock.offset) : Missing{"shares no collective"},
               clock.anchors > 0 ? DataCell(clock.residual) : Missing{"shares no collective"},
               clock.anchors});
  return table;
}

const metrics::RankLateness& of_rank(const LateRanks& late, int32_t rank) {
  return *std::find_if(late.ranks.begin(), late.ranks.end(),
                       [&](const auto& r) { return r.rank == rank; });
}

std::vector<std::string> verdict(const LateRanks& late) {
  if (late.starts.empty())
    return {"No collective is seen on more than one rank, so nobody can be called late."};
  if (!late.straggler) return {"Nobody is late: all ranks begin their collectives together."};
  const metrics::RankLateness& worst = of_rank(late, *late.straggler);
  std::vector<std::string> lines = {fmt::format(
      "Rank {} is the straggler: last into {} of {} collectives, others waited {} for it in all.",
      worst.rank, worst.times_last, worst.collectives, in_us(worst.caused))};
  const metrics::LateStart* longest = nullptr;
  for (const metrics::LateStart& start : late.starts)
    if (start.rank == worst.rank && (longest == nullptr || start.waits > longest->waits))
      longest = &start;
  if (longest != nullptr && !longest->chain.empty())
    lines.push_back("Its worst lateness: " + joined(longest->chain) + ".");
  if (late.naive_straggler && *late.naive_straggler != worst.rank) {
    const metrics::RankLateness& naive = of_rank(late, *late.naive_straggler);
    lines.push_back(fmt::format(
        "A naive reading blames rank {}, with {} in communication kernels against {} of rank {}; "
        "but {} of that is waiting for others.",
        naive.rank, in_us(naive.in_communication), in_us(worst.in_communication), worst.rank,
        in_us(naive.waited)));
  }
  return lines;
}

/// A recording beside the traces explains clocks and heat; its times are moved to the trace's.
Result<std::optional<run::Run>> telemetry_of(const std::vector<std::string>& runs,
                                             const TraceInput& input) {
  if (runs.empty()) {
    if (input.format == "run" && !input.run.series.empty()) return std::optional(input.run);
    return std::optional<run::Run>();
  }
  run::Run run = TPT_TRY(run::load(runs.front()));
  if (!run.manifest.epoch_unix_ns || !input.run.manifest.epoch_unix_ns)
    return error(fmt::format(
        "{}: its times cannot be brought to the trace's (one of them has no wall clock); record "
        "with this program, trace with a profiler that writes absolute times",
        runs.front()));
  const int64_t shift = *run.manifest.epoch_unix_ns - *input.run.manifest.epoch_unix_ns;
  for (run::Series& series : run.series)
    for (Instant& time : series.times)
      time = Instant(time.nanoseconds() + shift);
  return std::optional(std::move(run));
}

}  // namespace

Result<TraceReport> trace_stragglers(const TraceOptions& options) {
  std::vector<std::string> traces, runs;
  for (const std::string& file : options.files)
    (is_run_file(file) && options.files.size() > 1 ? runs : traces).push_back(file);
  const TraceInput input = TPT_TRY(read_trace_input(traces, options, trace::HostSpans::ops));
  const std::optional<run::Run> telemetry = TPT_TRY(telemetry_of(runs, input));
  const metrics::CollectiveMatch match = metrics::match_collectives(input.timeline());
  const metrics::ClockFit fit = metrics::fit_clocks(match.collectives);
  const LateRanks late =
      metrics::find_late_ranks(input.timeline(), match, telemetry ? &*telemetry : nullptr);
  TraceReport report{.headlines = verdict(late), .remarks = input.remarks};
  report.shown = {"ranks", "collectives", "clocks"};
  report.remarks.insert(report.remarks.end(), match.remarks.begin(), match.remarks.end());
  report.tables = {rank_table(late), start_table(late, match), clock_table(fit)};
  return report;
}

}  // namespace triplepoint::cli
