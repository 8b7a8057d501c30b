// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/experiments.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace_tables/input.h"
#include "triplepoint/metrics/trace_tables/rank_devices.h"
#include "triplepoint/report/figures/artifact_name.h"
#include "triplepoint/telemetry/upstream/artifact.h"
#include "triplepoint/telemetry/upstream/upstream.h"
#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/kineto/job_traces.h"
#include "triplepoint/trace/kineto/write_kineto.h"

namespace triplepoint::study {
namespace {

using Walk = std::filesystem::recursive_directory_iterator;
constexpr auto readable = std::filesystem::directory_options::skip_permission_denied;

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

void shift(run::Timeline& timeline, int64_t by) {
  for (run::Span& span : timeline.spans) {
    span.begin = Instant(span.begin.nanoseconds() + by);
    span.end = Instant(span.end.nanoseconds() + by);
  }
}

/// Where the traces' time 0 lies on the recording's clock: by the wall clocks of both, or, where
/// one has none, with the first span at the begin of the recording's step.
int64_t offset_of(const run::Run& recording, const run::Run& traced, std::string& said) {
  const run::Extent spans = run::extent(traced.timeline).value_or(run::Extent{});
  const bool has_steps = !recording.steps.empty();
  const Instant begin = has_steps ? recording.steps.front().begin : Instant();
  const auto &here = traced.manifest.epoch_unix_ns, &there = recording.manifest.epoch_unix_ns;
  if (!here || !there) {
    said = "the traces have no wall clock: their first span is laid at the begin of the step";
    return begin.nanoseconds() - spans.begin.nanoseconds();
  }
  const int64_t by = *here - *there;
  const bool meet = has_steps &&
                    spans.begin.nanoseconds() + by < recording.steps.back().end.nanoseconds() &&
                    begin.nanoseconds() < spans.end.nanoseconds() + by;
  if (has_steps && !meet)
    said = "the traces are of another time than the recorded steps (are both of one job?)";
  return by;
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

/// The first column whose title contains one of the words, in the order of the words.
std::optional<std::size_t> column_with(const CsvTable& table,
                                       std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    for (std::size_t i = 0; i < table.header().size(); ++i)
      if (lower_case(table.header()[i]).find(word) != std::string::npos) return i;
  return std::nullopt;
}

}  // namespace

bool is_experiment(const Path& folder) {
  return is_folder(folder) && (telemetry::looks_like_upstream(folder) ||
                               trace::newest_job_traces(folder) || kernel_stats_in(folder));
}

std::vector<Path> experiments_in(const Path& folder) {
  if (is_experiment(folder)) return {folder};
  std::vector<Path> found;
  std::error_code ignored;
  for (auto at = Walk(folder, readable, ignored); at != Walk(); at.increment(ignored)) {
    if (!at->is_directory(ignored) || !is_experiment(at->path())) continue;
    found.push_back(at->path());
    at.disable_recursion_pending();
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Path> empty_experiments_in(const Path& folder) {
  std::vector<Path> found;
  std::error_code ignored;
  for (auto at = Walk(folder, readable, ignored); at != Walk(); at.increment(ignored)) {
    if (!at->is_directory(ignored)) continue;
    if (is_experiment(at->path())) {
      at.disable_recursion_pending();
      continue;
    }
    const bool named = report::parse_artifact_name(at->path().filename().string(), 32) ||
                       report::parse_artifact_name(at->path().filename().string(), 64);
    const auto files = list_files(at->path(), "");
    if (named && files && files->empty()) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> experiment_names(const std::vector<Path>& experiments, const Path& tree) {
  std::set<Path> own;
  for (const Path& experiment : experiments)
    own.insert(experiment.filename());
  const bool differ = own.size() == experiments.size();
  std::vector<std::string> names;
  for (const Path& experiment : experiments)
    names.push_back(
        (differ ? experiment.filename() : experiment.lexically_relative(tree)).string());
  return names;
}

Result<run::Run> with_timeline(run::Run recording, run::Run traced) {
  std::string said;
  shift(traced.timeline, offset_of(recording, traced, said));
  if (!said.empty()) traced.manifest.notes.push_back(std::move(said));
  if (std::string ranks = metrics::take_ranks_from_traces(recording, traced); !ranks.empty())
    traced.manifest.notes.push_back(std::move(ranks));
  recording.timeline = std::move(traced.timeline);
  // Ranks that were not traced are ranks of the job, too.
  for (const run::Device& device : recording.devices)
    recording.timeline.num_ranks =
        std::max(recording.timeline.num_ranks, device.rank.value_or(-1) + 1);
  std::move(traced.manifest.notes.begin(), traced.manifest.notes.end(),
            std::back_inserter(recording.manifest.notes));
  recording.manifest.facts.merge(traced.manifest.facts);
  return recording;
}

Result<run::Run> read_experiment(const Path& folder, const metrics::TraceOptions& options) {
  const auto traces = trace::newest_job_traces(folder);
  const bool has_samples = telemetry::looks_like_upstream(folder);
  if (!traces && has_samples) {
    run::Run run = TPT_TRY(telemetry::read_upstream(folder));
    if (!run.devices.empty()) return run;
    return error(
        fmt::format("{}: no reading in any of its files (the job died before its first "
                    "sample); leave the folder out",
                    folder.string()));
  }
  if (!traces)
    return error(
        fmt::format("{}: neither samples nor traces (only kernel sums, which figures 3, "
                    "10 and 15 draw); report --figure N",
                    folder.string()));
  metrics::TraceInput input =
      TPT_TRY(metrics::read_trace_input({folder.string()}, options, trace::HostSpans::ops));
  run::Manifest& manifest = input.run.manifest;
  if (manifest.producer.empty()) manifest.producer = "triplepoint, from " + input.format;
  manifest.name = folder.filename().string();
  std::move(input.remarks.begin(), input.remarks.end(), std::back_inserter(manifest.notes));
  if (!has_samples) return std::move(input.run);
  return with_timeline(TPT_TRY(telemetry::read_upstream(folder)), std::move(input.run));
}

std::vector<run::NamedText> kineto_files(const run::Run& run) {
  run::Timeline timeline = run.timeline;
  if (timeline.names == run::NameKind::ops)
    for (run::SpanType& type : timeline.types)
      type.name = kernel_name(type);
  std::set<int32_t> ranks;
  run::for_each_span(timeline, -1, [&](const run::Span& span) { ranks.insert(span.rank); });
  std::vector<run::NamedText> files;
  for (const int32_t rank : ranks)
    files.push_back({fmt::format("1_kineto/rank-{}.json", rank),
                     trace::write_kineto(timeline, rank, run.manifest.epoch_unix_ns)});
  return files;
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
    span.end = Instant(static_cast<int64_t>(*microseconds * 1000));
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
