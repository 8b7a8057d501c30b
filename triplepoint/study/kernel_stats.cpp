// SPDX-License-Identifier: Apache-2.0
// Traces and sums of kernels as the paper's artifact keeps them: both have the same names.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/study/experiments.h"
#include "triplepoint/telemetry/upstream/artifact.h"
#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/kineto/write_kineto.h"

namespace triplepoint::study {
namespace {

constexpr std::string_view stats_ending = "_kernel_stats.csv";

std::optional<Path> kernel_stats_in(const Path& folder) {
  std::error_code problem;
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (entry.path().filename().string().ends_with(stats_ending)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  if (found.empty()) return std::nullopt;
  return found.front();
}

/// A name that the artifact's rules and ours put into the op's class: "gemm(qkv)".
std::string kernel_name(const run::SpanType& type) {
  using spec::Collective;
  const auto named = [&](std::string_view kernel) {
    return fmt::format("{}({})", kernel, type.name);
  };
  if (type.kind == run::SpanKind::compute)
    return named(type.op_class == spec::OpClass::attention ? "sdpa" : "gemm");
  if (type.kind == run::SpanKind::memory) return named("elementwise_kernel");
  const bool nccl =
      type.kind == run::SpanKind::communication && !type.name.starts_with("userbuffers");
  if (!nccl) return type.name;
  if (type.collective == Collective::all_reduce) return named("ncclDevKernel_AllReduce");
  if (type.collective == Collective::all_gather) return named("ncclDevKernel_AllGather");
  if (type.collective == Collective::reduce_scatter) return named("ncclDevKernel_ReduceScatter");
  return named("ncclDevKernel_SendRecv");
}

run::Timeline with_kernel_names(run::Timeline timeline) {
  if (timeline.names == run::NameKind::ops)
    for (run::SpanType& type : timeline.types)
      type.name = kernel_name(type);
  return timeline;
}

std::string trace_name(int32_t rank) {
  return fmt::format("rank-{}.json", rank);
}

/// The first column whose title contains one of the words, in the order of the words.
std::optional<std::size_t> column_with(const CsvTable& table,
                                       std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    for (std::size_t i = 0; i < table.header().size(); ++i)
      if (lower_case(table.header()[i]).find(word) != std::string::npos) return i;
  return std::nullopt;
}

}  // namespace

bool has_kernel_stats(const Path& folder) {
  return kernel_stats_in(folder).has_value();
}

std::vector<run::NamedText> kineto_files(const run::Run& run) {
  const run::Timeline timeline = with_kernel_names(run.timeline);
  std::set<int32_t> ranks;
  run::for_each_span(timeline, -1, [&](const run::Span& span) { ranks.insert(span.rank); });
  std::vector<run::NamedText> files;
  for (const int32_t rank : ranks)
    files.push_back({"1_kineto/" + trace_name(rank),
                     trace::write_kineto(timeline, rank, run.manifest.epoch_unix_ns)});
  return files;
}

std::optional<run::NamedText> kernel_stats_file(const run::Run& run,
                                                const std::string& experiment) {
  struct Sum {
    int64_t count = 0, nanoseconds = 0;
  };
  const run::Timeline timeline = with_kernel_names(run.timeline);
  std::map<std::pair<int32_t, std::string>, Sum> sums;
  run::for_each_span(timeline, -1, [&](const run::Span& span) {
    const run::SpanType& type = timeline.types[static_cast<std::size_t>(span.type)];
    // The profiler's category "kernel" is without copies.
    if (!metrics::is_kernel(type.kind) || type.kind == run::SpanKind::copy) return;
    Sum& sum = sums[{span.rank, type.name}];
    ++sum.count;
    sum.nanoseconds += span.end.nanoseconds() - span.begin.nanoseconds();
  });
  if (sums.empty()) return std::nullopt;
  constexpr std::string_view header[] = {"trace_file", "kernel_name", "count", "total_duration_us",
                                         "mean_duration_us"};
  const std::vector<std::string> columns(std::begin(header), std::end(header));
  CsvWriter csv(columns);
  for (const auto& [key, sum] : sums) {
    const double total_us = static_cast<double>(sum.nanoseconds) / 1e3;
    csv.cell(trace_name(key.first)).cell(key.second).cell(sum.count).cell(total_us);
    csv.cell(total_us / static_cast<double>(sum.count)).end_row();
  }
  return run::NamedText{experiment + std::string(stats_ending), csv.text()};
}

Result<std::optional<std::vector<metrics::KernelSeconds>>> read_kernel_stats(const Path& folder) {
  using Kernels = std::optional<std::vector<metrics::KernelSeconds>>;
  const auto file = kernel_stats_in(folder);
  if (!file) return Kernels();
  const CsvTable table = TPT_TRY(CsvTable::parse(TPT_TRY(read_file(*file)), file->string()));
  const auto source = column_with(table, {"rank", "trace", "file"}),
             kernel = column_with(table, {"kernel", "name"}), total = column_with(table, {"total"});
  if (!source || !kernel || !total)
    return error(
        fmt::format("{}: no columns of a trace, a kernel and a total duration (there are "
                    "{}); is it from figure_10_parse.py?",
                    file->string(), fmt::join(table.header(), ", ")));
  run::Timeline timeline;
  timeline.names = run::NameKind::kernels;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto microseconds = TPT_TRY(table.number(row, *total));
    const auto rank = trace::rank_in_name(table.at(row, *source));
    // Longer than a year is no duration, and overflows.
    if (!microseconds || !(*microseconds >= 0 && *microseconds < 4e13) || !rank ||
        *rank >= telemetry::most_ranks)
      return error(
          fmt::format("{}:{}: no rank as in rank-0.json, or no duration in microseconds; make the "
                      "file again with figure_10_parse.py",
                      file->string(), table.line(row)));
    run::SpanType type;
    type.name = std::string(table.at(row, *kernel));
    type.kind = run::SpanKind::other;
    run::Span span;
    span.end = Instant(static_cast<int64_t>(std::llround(*microseconds * 1000)));
    span.type = timeline.intern(type);
    span.rank = *rank;
    timeline.num_ranks = std::max(timeline.num_ranks, *rank + 1);
    timeline.spans.push_back(span);
  }
  std::vector<metrics::KernelSeconds> of_ranks =
      metrics::kernel_seconds_of_ranks(timeline, metrics::KernelRules::upstream);
  return Kernels(std::move(of_ranks));
}

}  // namespace triplepoint::study
