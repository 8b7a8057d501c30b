// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/late_evidence.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"
#include "triplepoint/trace_report/rank_devices.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

using metrics::Collective;

constexpr const char* one_rank = "waits and transfers need more than one rank";

/// "sum" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"; nccl-tests writes "none" elsewhere.
std::string reduction_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> words = {
      {{"_Sum", "sum"}, {"_Prod", "prod"}, {"_Max", "max"}, {"_Min", "min"}, {"_Avg", "avg"}}};
  for (const auto& [part, word] : words)
    if (name.find(part) != std::string_view::npos) return word;
  return "none";
}

constexpr const char* no_elements = "the trace does not tell how many elements";
constexpr const char* no_type = "the trace does not tell the data type";

/// Why the size of a collective is not known; that of an all-gather is its result's.
const char* no_size(std::string_view label, int64_t count) {
  if (count < 0) return no_elements;
  return label == "all_gather" ? "the trace does not tell what was gathered, or its data type"
                               : no_type;
}
DataCell bytes_of(Bytes size, std::string_view label, int64_t count) {
  if (size <= Bytes()) return Missing{no_size(label, count)};
  return static_cast<int64_t>(size / unit::B);
}
DataCell count_of(int64_t count) {
  if (count < 0) return Missing{no_elements};
  return count;
}
DataCell group_of(int32_t size) {
  if (size <= 0) return Missing{"the trace does not tell groups"};
  return int64_t{size};
}

DataTable collective_table(const std::vector<Collective>& all) {
  DataTable table{.name = "collectives",
                  .title =
                      "Collectives, in the columns of nccl-tests (time: of the mean transfer; "
                      "of one rank alone, the shortest kernel)"};
  table.columns = {{"size_bytes", "size B"},
                   {"count", "count"},
                   {"collective", "collective"},
                   {"ranks", "ranks"},
                   {"times", "times"},
                   {"time_ns", "time us", 1e3, 1},
                   {"algbw_gb_s", "algbw GB/s", 1, 2},
                   {"busbw_gb_s", "busbw GB/s", 1, 2},
                   {"kernel_mean_ns", "kernel mean us", 1e3, 1},
                   {"kernel_min_ns", "min us", 1e3, 1},
                   {"kernel_max_ns", "max us", 1e3, 1},
                   {"wait_mean_ns", "wait us", 1e3, 1}};
  const char* no_group = "the trace does not tell groups";
  const char* no_factor = "nccl-tests has no bus bandwidth of it";
  for (const metrics::CollectiveRow& row : metrics::tabulate(all)) {
    const auto kernels = static_cast<double>(row.kernels);
    const double time =
        row.transfer ? static_cast<double>(*row.transfer) / static_cast<double>(row.occurrences)
                     : static_cast<double>(row.shortest);
    const char* no_rate =
        row.size > Bytes() ? "the kernels take no time" : no_size(row.label, row.count);
    const char* no_bus_rate = row.group_size > 0 ? no_factor : no_group;
    table.add({bytes_of(row.size, row.label, row.count), count_of(row.count),
               std::string(row.label), group_of(row.group_size), row.occurrences, time,
               cell_of(row.algbw_gb_s, no_rate),
               cell_of(row.busbw_gb_s, row.algbw_gb_s ? no_bus_rate : no_rate),
               static_cast<double>(row.total) / kernels, row.shortest, row.longest,
               row.wait ? DataCell(static_cast<double>(*row.wait) / kernels) : Missing{one_rank}});
  }
  return table;
}

DataTable size_table(const std::vector<Collective>& all) {
  DataTable table{.name = "sizes", .title = "Messages by size"};
  table.columns = {{"collective", "collective"},
                   {"up_to_bytes", "up to B"},
                   {"times", "times"},
                   {"kernels_ns", "kernels ms", 1e6, 3},
                   {"transfer_ns", "transfer ms", 1e6, 3}};
  for (const metrics::MessageSizes& sizes : metrics::message_sizes(all))
    table.add({std::string(sizes.label), static_cast<int64_t>(sizes.upper / unit::B),
               sizes.occurrences, sizes.total,
               sizes.transfer > 0 ? DataCell(sizes.transfer) : Missing{one_rank}});
  return table;
}

DataTable occurrence_table(const TraceInput& input, const std::vector<Collective>& all) {
  DataTable table{.name = "occurrences", .title = "Every collective, in order of time"};
  table.columns = {{"begin_ns", "begin ms", 1e6, 3},
                   {"collective", "collective"},
                   {"group", "group"},
                   {"sequence", "number"},
                   {"redop", "redop"},
                   {"size_bytes", "size B"},
                   {"ranks_seen", "ranks seen"},
                   {"start_spread_ns", "start spread us", 1e3, 1},
                   {"transfer_ns", "transfer us", 1e3, 1},
                   {"last_rank", "last rank"}};
  for (const Collective& c : all) {
    const bool known = c.communicator >= 0;
    const bool across = c.across_ranks();
    table.add(
        {c.first_begin(), std::string(c.label),
         known ? DataCell(input.timeline().communicators[static_cast<size_t>(c.communicator)].name)
               : Missing{"the trace does not tell groups"},
         c.sequence >= 0 ? DataCell(c.sequence) : Missing{"not numbered"}, reduction_of(c.name),
         bytes_of(c.size, c.label, c.count), static_cast<int64_t>(c.parts.size()),
         across ? DataCell(c.last_begin() - c.first_begin()) : Missing{one_rank},
         cell_of(c.transfer(), one_rank),
         across ? DataCell(int64_t{c.last_starter()}) : Missing{one_rank}});
  }
  return table;
}

}  // namespace

Result<TraceReport> trace_comm(const TraceOptions& options) {
  const TraceInput input =
      TPT_TRY(read_traced_work(options.files, options, trace::HostSpans::launches));
  const metrics::CollectiveMatch match =
      metrics::match_collectives(input.timeline(), metrics::job_ranks_of(input.run));
  TraceReport report{.shown = {"collectives", "sizes"}, .remarks = input.remarks};
  report.remarks.insert(report.remarks.end(), match.remarks.begin(), match.remarks.end());
  if (match.collectives.empty()) report.headlines.emplace_back("No communication in the trace.");
  report.tables = {collective_table(match.collectives), size_table(match.collectives),
                   occurrence_table(input, match.collectives)};
  return report;
}

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

DataTable start_table(const LateRanks& late, const CollectiveMatch& match, const SpanList& spans) {
  DataTable table{.name = "collectives", .title = "Collectives: who began last, and why"};
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
    const std::string cause = cause_text(start, spans);
    table.add({static_cast<int64_t>(i + 1), std::string(collective.label), collective.first_begin(),
               start.start_spread, start.end_spread, start.shortest, start.longest,
               int64_t{start.rank}, start.lead,
               cause.empty() ? DataCell(Missing{"not later than 1 us, or nothing to compare"})
                             : DataCell(cause)});
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
  const char* no_anchors = "shares no collective, or one alone, which fits any offset";
  for (const metrics::RankClock& clock : fit.ranks)
    table.add({int64_t{clock.rank},
               clock.anchors > 0 ? DataCell(clock.offset) : Missing{no_anchors},
               clock.anchors > 0 ? DataCell(clock.residual) : Missing{no_anchors}, clock.anchors});
  return table;
}

/// A recording beside the traces explains clocks and heat; its times are moved to the trace's.
Result<std::optional<run::Run>> telemetry_of(const std::vector<std::string>& runs,
                                             TraceInput& input) {
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
  if (std::string said = take_ranks_from_traces(run, input.run); !said.empty())
    input.remarks.push_back(std::move(said));
  return std::optional(std::move(run));
}

}  // namespace

Result<TraceReport> trace_stragglers(const TraceOptions& options) {
  std::vector<std::string> traces, runs;
  for (const std::string& file : options.files)
    (is_run_file(file) && options.files.size() > 1 ? runs : traces).push_back(file);
  TraceInput input = TPT_TRY(read_traced_work(traces, options, trace::HostSpans::ops));
  const std::optional<run::Run> telemetry = TPT_TRY(telemetry_of(runs, input));
  const SpanList spans(input.timeline());
  const CollectiveMatch match = match_collectives(spans, job_ranks_of(input.run));
  const LateRanks late = find_late_ranks(spans, match);
  TraceReport report{.remarks = input.remarks};
  std::vector<run::Bottleneck> bottlenecks;
  std::optional<Seconds> step_time;
  if (input.run.manifest.origin == run::Origin::simulated) {
    const Metrics metrics = measure(input.run);
    bottlenecks = metrics.bottlenecks;
    step_time = metrics.step_time;
  } else {
    bottlenecks = late_bottlenecks(spans, match, late, telemetry ? &*telemetry : nullptr);
  }
  report.headlines = lateness_sentences(input.run, late, bottlenecks, step_time);
  report.shown = {"ranks", "collectives", "clocks"};
  report.remarks.insert(report.remarks.end(), match.remarks.begin(), match.remarks.end());
  report.tables = {rank_table(late), start_table(late, match, spans),
                   clock_table(input.clocks.value_or(metrics::fit_clocks(match.collectives)))};
  return report;
}

}  // namespace triplepoint::trace_report
