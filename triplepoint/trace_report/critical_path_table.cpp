// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/metrics/trace/critical_path.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

DataTable class_table(const CriticalPath& path) {
  DataTable table{.name = "classes", .title = "The critical path, by what is on it"};
  table.columns = {{"class", "class"},
                   {"on_path_ns", "on path", 0, 2},
                   {"on_path_percent", "% of path", 1, 1},
                   {"pieces", "pieces"},
                   {"saved_if_free_ns", "saved if free", 0, 2},
                   {"saved_if_free_percent", "% of path", 1, 1}};
  for (const metrics::PathShare& share : path.shares)
    table.add({std::string(share.label), share.on_path, percent(share.on_path, path.length()),
               share.pieces, share.saved_if_free, percent(share.saved_if_free, path.length())});
  return in_one_unit(std::move(table));
}

DataTable kernel_table(const run::Timeline& timeline, const CriticalPath& path, size_t most) {
  DataTable table{.name = "kernels", .title = "Longest on the path, by name"};
  table.columns = {{"class", "class"},
                   {"on_path_ns", "on path", 0, 2},
                   {"on_path_percent", "% of path", 1, 1},
                   {"pieces", "pieces"},
                   {"name", "name"}};
  for (size_t i = 0; i < std::min(most, path.kernels.size()); ++i) {
    const metrics::PathSpanShare& share = path.kernels[i];
    const run::SpanType& type = timeline.types[as_size(share.type)];
    table.add({std::string(metrics::label_of(type)), share.on_path,
               percent(share.on_path, path.length()), share.pieces, type.name});
  }
  return in_one_unit(std::move(table));
}

DataTable rank_table(const CriticalPath& path) {
  DataTable table{.name = "ranks", .title = "The path's way through the ranks"};
  table.columns = {
      {"rank", "rank"}, {"on_path_ns", "on path", 0, 2}, {"on_path_percent", "% of path", 1, 1}};
  for (const metrics::PathRankShare& rank : path.ranks)
    table.add({int64_t{rank.rank}, rank.on_path, percent(rank.on_path, path.length())});
  return in_one_unit(std::move(table));
}

DataTable piece_table(const run::Timeline& timeline, const CriticalPath& path) {
  DataTable table{.name = "pieces", .title = "The path, piece by piece"};
  table.columns = {{"begin_ns", "begin us", 1e3, 3},
                   {"duration_ns", "us", 1e3, 3},
                   {"rank", "rank"},
                   {"class", "class"},
                   {"name", "name"}};
  for (const metrics::PathPiece& piece : path.pieces) {
    const run::Span& span = timeline.spans[as_size(piece.span)];
    table.add({piece.begin, piece.end - piece.begin, int64_t{piece.rank}, std::string(piece.label),
               timeline.types[as_size(span.type)].name});
  }
  return in_one_unit(std::move(table));
}

/// Says how much of the time the path covers where that is not all of it.
std::string headline(const CriticalPath& path) {
  const TimeUnit unit = time_unit(path.length());
  const auto length = as_real(path.length()) / unit.ns;
  if (path.is_whole())
    return fmt::format("The longest chain of dependencies takes {:.3f} {}, in {} pieces.", length,
                       unit.name, path.pieces.size());
  const int64_t whole = path.length() + path.not_followed;
  return fmt::format(
      "The longest chain of dependencies covers only the last {:.3f} of {:.3f} {} ({:.1f} %), in "
      "{} pieces: what its first piece waited for is not in the timeline.",
      length, as_real(whole) / unit.ns, unit.name, percent(path.length(), whole),
      path.pieces.size());
}

}  // namespace

Result<TraceReport> trace_critical_path(const TraceOptions& options) {
  const TraceInput input = TPT_TRY(read_traced_work(options.files, options, trace::HostSpans::ops));
  const CriticalPath path = metrics::critical_path(input.timeline());
  if (path.pieces.empty())
    return error(
        "nothing in the trace takes time, so there is no critical path; name a trace with kernels");
  TraceReport report{.shown = {"classes", "kernels", "ranks"}, .remarks = input.remarks};
  report.headlines = {headline(path)};
  report.tables = {class_table(path), kernel_table(input.timeline(), path, as_size(options.rows())),
                   rank_table(path), piece_table(input.timeline(), path)};
  return report;
}

}  // namespace triplepoint::trace_report
