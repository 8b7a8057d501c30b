// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/base/files.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace/nccl_tests/nccl_tests.h"
#include "triplepoint/trace/read.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

constexpr const char* one_rank = "waits and transfers need more than one rank";

/// "sum" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)"; nccl-tests writes "none" elsewhere.
std::string reduction_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> words = {
      {{"_Sum", "sum"}, {"_Prod", "prod"}, {"_Max", "max"}, {"_Min", "min"}, {"_Avg", "avg"}}};
  for (const auto& [part, word] : words)
    if (contains(name, part)) return word;
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

/// Collectives without a measured length: one for each rank's issue of it.
std::vector<Collective> issues_of(const run::Timeline& timeline) {
  std::vector<Collective> all;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    const run::SpanType& type = timeline.types[as_size(span.type)];
    if (!run::issue_state(type)) continue;
    const run::SpanDetail& detail = timeline.details[i];
    Collective issue{.label = type.collective ? spec::name_of(*type.collective) : "communication",
                     .name = type.name,
                     .communicator = detail.communicator,
                     .sequence = detail.sequence,
                     .size = span.bytes};
    issue.count = issue.label == "reduce_scatter" ? detail.out_elements : detail.in_elements;
    if (detail.communicator >= 0)
      issue.group_size = timeline.communicators[as_size(detail.communicator)].size;
    const int64_t at = span.begin.nanoseconds();
    issue.parts = {{span.rank, static_cast<int32_t>(i), at, at}};
    all.push_back(std::move(issue));
  }
  return all;
}

DataTable collective_table(const std::vector<Collective>& all,
                           const std::vector<Collective>& issues) {
  DataTable table{.name = "collectives",
                  .title =
                      "Collectives, in the columns of nccl-tests (time: of the mean transfer; "
                      "of one rank alone, the shortest kernel)"};
  table.columns = {{"size_bytes", "size B"},
                   {"count", "count"},
                   {"collective", "collective"},
                   {"ranks", "ranks"},
                   {"times", "times"},
                   {"not_timed", "not timed"},
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
    const auto kernels = as_real(row.kernels);
    const double time = row.mean_transfer().value_or(as_real(row.shortest));
    // Beside collectives that are matched, a kernel that is not tells no transfer.
    const int64_t times = row.timed > 0 ? row.timed : row.occurrences;
    const char* no_rate =
        row.size > Bytes() ? "the kernels take no time" : no_size(row.label, row.count);
    const char* no_bus_rate = row.group_size > 0 ? no_factor : no_group;
    table.add({bytes_of(row.size, row.label, row.count), count_of(row.count),
               std::string(row.label), group_of(row.group_size), times, row.occurrences - times,
               time, cell_of(row.algbw_gb_s, no_rate),
               cell_of(row.busbw_gb_s, row.algbw_gb_s ? no_bus_rate : no_rate),
               as_real(row.total) / kernels, row.shortest, row.longest,
               cell_of(row.mean_wait(), one_rank)});
  }
  for (const metrics::CollectiveRow& row : metrics::tabulate(issues)) {
    const Missing unknown{"the recorder measured no length of it"};
    table.add({bytes_of(row.size, row.label, row.count), count_of(row.count),
               std::string(row.label), group_of(row.group_size), int64_t{0}, row.occurrences,
               unknown, unknown, unknown, unknown, unknown, unknown, unknown});
  }
  return table;
}

DataTable occurrence_table(const TraceInput& input, const std::vector<Collective>& all,
                           const std::vector<Collective>& issues) {
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
                   {"last_rank", "last rank"},
                   {"state", "state"}};
  std::vector<const Collective*> in_order;
  for (const std::vector<Collective>* some : {&all, &issues})
    for (const Collective& c : *some)
      in_order.push_back(&c);
  std::ranges::stable_sort(in_order, {}, [](const Collective* c) { return c->first_begin(); });
  for (const Collective* one : in_order) {
    const Collective& c = *one;
    const auto state = run::issue_state(
        input.timeline()
            .types[as_size(input.timeline().spans[as_size(c.parts.front().span)].type)]);
    const bool known = c.communicator >= 0;
    const bool across = c.across_ranks();
    table.add({c.first_begin(), std::string(c.label),
               known ? DataCell(input.timeline().communicators[as_size(c.communicator)].name)
                     : Missing{"the trace does not tell groups"},
               c.sequence >= 0 ? DataCell(c.sequence) : Missing{"not numbered"},
               reduction_of(c.name), bytes_of(c.size, c.label, c.count),
               static_cast<int64_t>(c.parts.size()),
               across ? DataCell(c.last_begin() - c.first_begin()) : Missing{one_rank},
               cell_of(c.transfer(), one_rank),
               across ? DataCell(int64_t{c.last_starter()}) : Missing{one_rank},
               state ? DataCell(std::string(run::word_of(*state))) : DataCell("timed")});
  }
  return table;
}

/// The rows of nccl-tests or rccl-tests, if the one file is their output.
Result<std::optional<trace::NcclTests>> measurements_in(const std::vector<std::string>& files) {
  if (files.size() != 1 || files[0] == "-" || is_folder(files[0])) return std::nullopt;
  trace::Input input = TPT_TRY(trace::Input::open(files[0]));
  const std::string_view head = TPT_TRY(input.peek(trace::recognized_by));
  if (!trace::looks_like_nccl_tests(head)) return std::nullopt;
  return TPT_TRY(trace::parse_nccl_tests(input));
}

TraceReport measured_collectives(const trace::NcclTests& tests) {
  DataTable table{.name = "collectives", .title = "What nccl-tests measured"};
  table.columns = {{"size_bytes", "size B"},
                   {"count", "count"},
                   {"collective", "collective"},
                   {"type", "type"},
                   {"redop", "redop"},
                   {"place", "place"},
                   {"time_ns", "time us", 1e3, 2},
                   {"algbw_gb_s", "algbw GB/s", 1, 2},
                   {"busbw_gb_s", "busbw GB/s", 1, 2},
                   {"wrong", "wrong"}};
  for (const trace::NcclTestRow& row : tests.rows)
    table.add({static_cast<int64_t>(row.size / unit::B),
               row.count > 0 ? DataCell(row.count) : Missing{"the output does not tell it"},
               row.operation.empty() ? DataCell(Missing{"the output does not name its operation"})
                                     : DataCell(row.operation),
               row.type, row.reduction.empty() ? std::string("none") : row.reduction,
               std::string(row.in_place ? "in" : "out"), row.time / unit::ns,
               row.algorithm_bandwidth / (unit::GB / unit::s),
               row.bus_bandwidth / (unit::GB / unit::s),
               cell_of(row.wrong, "the check was off, or an older version printed an error")});
  TraceReport report{.shown = {"collectives"}};
  report.headlines.push_back(
      tests.ranks > 0 ? fmt::format("{} measurements on {} ranks.", tests.rows.size(), tests.ranks)
                      : fmt::format("{} measurements.", tests.rows.size()));
  if (tests.skipped > 0)
    report.remarks.push_back(
        fmt::format("{} lines look like measurements, but are none", tests.skipped));
  report.tables = {std::move(table)};
  return report;
}

}  // namespace

Result<TraceReport> trace_comm(const TraceOptions& options) {
  if (const auto tests = TPT_TRY(measurements_in(options.files)))
    return measured_collectives(*tests);
  const TraceInput input =
      TPT_TRY(read_traced_work(options.files, options, trace::HostSpans::launches));
  const metrics::CollectiveMatch match =
      metrics::match_collectives(input.timeline(), metrics::job_ranks_of(input.run));
  TraceReport report{.shown = {"collectives"}, .remarks = input.remarks};
  report.remarks.insert(report.remarks.end(), match.remarks.begin(), match.remarks.end());
  const std::vector<Collective> issues = issues_of(input.timeline());
  if (!match.mismatch.empty()) report.headlines.push_back(match.mismatch);
  if (match.collectives.empty())
    report.headlines.push_back(issues.empty()
                                   ? absence_of_communication(input.timeline())
                                   : "No collective in the dumps has a measured length.");
  report.tables = {collective_table(match.collectives, issues),
                   occurrence_table(input, match.collectives, issues)};
  return report;
}

namespace {

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

DataCell ranks_cell(const std::vector<int32_t>& ranks, const char* none) {
  return ranks.empty() ? DataCell(Missing{none})
                       : DataCell(fmt::format("{}", fmt::join(ranks, " ")));
}

/// "started 3, scheduled 1".
std::string states_of(const PendingCollective& pending) {
  std::array<int64_t, run::issue_state_words.size()> counts{};
  for (const IssuePart& part : pending.parts)
    ++counts[as_size(part.state)];
  std::string text;
  for (size_t i = counts.size(); i-- > 0;)
    if (counts[i] > 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", run::issue_state_words[i], counts[i]);
  return text;
}

std::string calls_of(const PendingCollective& pending) {
  std::vector<std::string> calls;
  for (const IssuePart& part : pending.parts) {
    std::string call = part.elements < 0 ? std::string(part.label)
                                         : fmt::format("{} {}", part.label, part.elements);
    if (!holds(calls, call)) calls.push_back(call);
  }
  return fmt::format("{}", fmt::join(calls, " / "));
}

}  // namespace

Result<TraceReport> trace_stragglers(const TraceOptions& options) {
  const auto [traces, recordings] = divide(options.files);
  TraceInput input = TPT_TRY(read_traced_work(traces, options, trace::HostSpans::ops));
  const std::optional<run::Run> telemetry = TPT_TRY(telemetry_of(recordings, input));
  const SpanList spans(input.timeline());
  const CollectiveMatch match = match_collectives(spans, job_ranks_of(input.run));
  const auto hang = find_hang(input.timeline());
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
  if (hang) report.headlines = hang_sentences(input.timeline(), *hang);
  // A flight recorder's dump of a hang says who is missing; lateness only where lengths are known.
  const bool hangs = hang && (!hang->missing.empty() || !hang->differing.empty());
  if (!hangs && (!hang || !late.starts.empty() || report.headlines.empty()))
    std::ranges::move(lateness_sentences(input.run, late, bottlenecks, step_time),
                      std::back_inserter(report.headlines));
  report.shown = {"ranks", "collectives", "clocks"};
  if (hang && late.starts.empty()) report.shown.clear();
  if (hang) report.shown.insert(report.shown.begin(), "pending");
  report.remarks.insert(report.remarks.end(), match.remarks.begin(), match.remarks.end());
  if (late.untimed > 0)
    report.remarks.push_back(
        fmt::format("{} times between collectives hold kernels without sound time stamps: these, "
                    "and the gaps beside them, tell no delay",
                    late.untimed));
  if (hang) report.tables.push_back(hang_table(input.timeline(), *hang));
  for (DataTable& table : std::vector<DataTable>{
           rank_table(late), start_table(late, match, spans),
           clock_table(input.clocks.value_or(metrics::fit_clocks(match.collectives)))})
    report.tables.push_back(std::move(table));
  return report;
}

DataTable hang_table(const run::Timeline& timeline, const metrics::HangReport& report) {
  DataTable table{.name = "pending", .title = "What has not ended, by group: who waits for whom"};
  table.columns = {{"group", "group"},
                   {"sequence", "number"},
                   {"call", "call, elements"},
                   {"states", "states"},
                   {"issued_by", "issued by"},
                   {"never_issued", "never by"},
                   {"not_given", "not given"},
                   {"apart_ns", "issued apart us", 1e3, 1},
                   {"frame", "at"}};
  for (const PendingCollective& pending : report.pending) {
    const std::vector<int32_t> issued = mapped(pending.parts, &IssuePart::rank);
    const std::string_view frame = metrics::frame_of_issue(timeline, pending.last_issued().span);
    table.add({timeline.communicators[as_size(pending.communicator)].name, pending.sequence,
               calls_of(pending), states_of(pending), ranks_cell(issued, ""),
               ranks_cell(pending.never, "all given ranks issued it"),
               ranks_cell(pending.unknown, "all ranks are given"), pending.spread(),
               frame.empty() ? DataCell(Missing{"the dump has no frames"})
                             : DataCell(std::string(frame))});
  }
  return table;
}

}  // namespace triplepoint::trace_report
