// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/run/store.h"

#include "triplepoint/metrics/trace/clock_fit.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/metrics/trace/lateness.h"
#include "triplepoint/metrics/trace_tables/analyses.h"
#include "triplepoint/metrics/trace_tables/input.h"

namespace triplepoint::metrics {
namespace {

using metrics::LateRanks;

DataTable rank_table(const LateRanks& late) {
  DataTable table{.name = "ranks", .title = "Who was waited for, by rank"};
  table.columns = {{"rank", "rank"},
                   {"collectives", "collectives"},
                   {"times_last", "times last", 1, 0, true},
                   {"blamed_ns", "cost others us", 1e3, 1, true},
                   {"delay_ns", "own delays us", 1e3, 1, true},
                   {"caused_ns", "others waited us", 1e3, 1, true},
                   {"alone_ns", "later than 2nd us", 1e3, 1, true},
                   {"waited_ns", "waited itself us", 1e3, 1, true},
                   {"communication_ns", "in comm kernels us", 1e3, 1, true}};
  for (const metrics::RankLateness& rank : late.ranks) {
    const auto cell = [&](int64_t value) {
      return rank.collectives > 0 ? DataCell(value) : Missing{"shares no collective"};
    };
    table.add({int64_t{rank.rank}, rank.collectives, cell(rank.times_last), cell(rank.blamed),
               cell(rank.delay), cell(rank.caused), cell(rank.alone), cell(rank.waited),
               rank.in_communication});
  }
  return table;
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
                                   : DataCell(metrics::chain_text(start.chain))});
  }
  return table;
}

DataTable clock_table(const metrics::ClockFit& fit) {
  DataTable table{
      .name = "clocks",
      .title = "Clocks as found, from the ends of collectives (offset to the median rank)"};
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
  const LateRanks late =
      metrics::find_late_ranks(input.timeline(), match, telemetry ? &*telemetry : nullptr);
  TraceReport report{.headlines = metrics::lateness_sentences(late), .remarks = input.remarks};
  report.shown = {"ranks", "collectives", "clocks"};
  report.remarks.insert(report.remarks.end(), match.remarks.begin(), match.remarks.end());
  report.tables = {rank_table(late), start_table(late, match),
                   clock_table(input.clocks.value_or(metrics::fit_clocks(match.collectives)))};
  return report;
}

}  // namespace triplepoint::metrics
