// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/experiments.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace_tables/input.h"
#include "triplepoint/metrics/trace_tables/rank_devices.h"
#include "triplepoint/report/figures/artifact_name.h"
#include "triplepoint/report/figures/paper_figures.h"
#include "triplepoint/study/experiment_job.h"
#include "triplepoint/study/experiment_log.h"
#include "triplepoint/telemetry/upstream/artifact.h"
#include "triplepoint/telemetry/upstream/upstream.h"
#include "triplepoint/trace/kineto/job_traces.h"

namespace triplepoint::study {

namespace {

using Walk = std::filesystem::recursive_directory_iterator;
constexpr auto readable = std::filesystem::directory_options::skip_permission_denied;

bool is_named_like_experiment(const Path& folder) {
  const std::string name = by_own_name(folder).filename();
  using enum report::ArtifactSweep;
  return report::parse_artifact_name(name, h200) || report::parse_artifact_name(name, h100) ||
         report::parse_artifact_name(name, adapters);
}

/// Whether a file of samples has something in it.
bool has_readings(const Path& folder) {
  std::error_code problem, ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (telemetry::artifact_name(entry.path().filename().string()) && entry.file_size(ignored) > 0)
      return true;
  return false;
}

/// Its configuration, and the events of NeMo's logger.
bool is_written_at_start(const Path& file) {
  return file.extension() == ".yaml" || file.extension() == ".yml" ||
         file.filename().string().starts_with("events.out.tfevents");
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

}  // namespace

bool is_experiment(const Path& folder) {
  return is_folder(folder) &&
         (telemetry::looks_like_upstream(folder) || trace::newest_job_traces(folder) ||
          has_kernel_stats(folder) || (is_named_like_experiment(folder) && has_logs(folder)));
}

std::optional<std::string> out_of_memory(const Path& folder) {
  if (!is_named_like_experiment(folder) || trace::newest_job_traces(folder) ||
      has_kernel_stats(folder) || has_readings(folder))
    return std::nullopt;
  const auto files = list_files(folder, "");
  if (files && std::all_of(files->begin(), files->end(), is_written_at_start))
    return "the job left no sample, trace or log, which the artifact's scripts take for out of "
           "memory";
  const auto log = log_without_memory(folder);
  if (!log || log_in(folder)) return std::nullopt;
  return fmt::format("{} says that the job ran out of memory", *log);
}

namespace {

/// Folders below that `is` chooses; nothing in them is looked at.
template <class Is>
std::vector<Path> folders_below(const Path& folder, Is is) {
  std::vector<Path> found;
  std::error_code ignored;
  for (auto at = Walk(folder, readable, ignored); at != Walk(); at.increment(ignored)) {
    if (!at->is_directory(ignored)) continue;
    const bool chosen = is(at->path());
    if (chosen) found.push_back(at->path());
    if (chosen || is_experiment(at->path())) at.disable_recursion_pending();
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<Path> experiments_in(const Path& folder) {
  const auto is = [](const Path& path) { return is_experiment(path) && !out_of_memory(path); };
  if (is_experiment(folder)) return {folder};
  return folders_below(folder, is);
}

std::vector<Path> out_of_memory_in(const Path& folder) {
  if (is_experiment(folder)) return {};
  return folders_below(folder, [](const Path& path) { return out_of_memory(path).has_value(); });
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

namespace {

/// Of one job, with what the reader says of them; what is missing begins with incomplete_note.
Result<run::Run> read_traces(const Path& folder, const metrics::TraceOptions& options) {
  metrics::TraceInput input =
      TPT_TRY(metrics::read_trace_input({folder.string()}, options, trace::HostSpans::ops));
  run::Manifest& manifest = input.run.manifest;
  if (manifest.producer.empty()) manifest.producer = "triplepoint, from " + input.format;
  manifest.name = by_own_name(folder).filename().string();
  const std::string here = (folder / "").string();
  for (std::string& remark : input.remarks) {
    const bool of_file = remark.starts_with(here);
    if (of_file) remark.erase(0, here.size());
    const bool is_missing = of_file || remark.starts_with("a file ends");
    manifest.notes.push_back((is_missing ? std::string(telemetry::incomplete_note) : "") + remark);
  }
  return std::move(input.run);
}

Result<run::Run> read_samples(const Path& folder) {
  run::Run run = TPT_TRY(telemetry::read_upstream(folder));
  if (!run.devices.empty()) return run;
  return error(
      fmt::format("{}: no reading in any of its files (the job died before its first "
                  "sample); leave the folder out",
                  folder.string()));
}

/// Without samples and traces: the steps of the log alone.
Result<run::Run> read_log_alone(const Path& folder, const std::optional<ExperimentLog>& log) {
  if (const auto why = out_of_memory(folder))
    return error(fmt::format("{}: {}", folder.string(), *why));
  if (has_kernel_stats(folder) || !has_logs(folder))
    return error(
        fmt::format("{}: neither samples nor traces (only kernel sums, which figures 3, "
                    "10 and 15 draw); report --figure N",
                    folder.string()));
  if (!log)
    return error(
        fmt::format("{}: neither samples nor traces, and no line of a training step in its logs "
                    "(did the job fail?); look at the end of the logs",
                    folder.string()));
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run.manifest.fidelity = run::Fidelity::real;
  run.manifest.name = by_own_name(folder).filename().string();
  run.manifest.producer = fmt::format("triplepoint, from a log of {}", log->log.framework);
  run.steps = trace::step_records(log->log);
  run.manifest.notes.emplace_back(
      "a training's log tells the time of each step, not what ran in it");
  return run;
}

/// The sampler's files name no GPU; the job does, or else the sweep, as in the paper's figures.
void name_gpus(run::Run& run, const Path& folder) {
  run::Run shape;  // no spans to sum
  shape.manifest.job = run.manifest.job;
  shape.devices = run.devices;
  shape.devices.resize(static_cast<std::size_t>(ranks_of(run)));
  const std::string machine =
      report::paper_job(shape, {}, by_own_name(folder).filename().string(), folder).machine;
  const std::size_t at = machine.find(" x ");
  if (at == std::string::npos) return;
  for (run::Device& device : run.devices)
    device.name = machine.substr(at + 3);
}

/// Samples of fewer GPUs than the traces say that the job has.
void note_missing_gpus(run::Run& run) {
  const auto ranks = static_cast<std::size_t>(run.manifest.job ? run.manifest.job->world_size()
                                                               : metrics::job_ranks_of(run));
  if (!run.devices.empty() && run.devices.size() < ranks)
    run.manifest.notes.push_back(fmt::format("{}samples of {} of the job's {} GPUs",
                                             telemetry::incomplete_note, run.devices.size(),
                                             ranks));
}

}  // namespace

Result<run::Run> read_experiment(const Path& folder, const metrics::TraceOptions& options,
                                 ExperimentSteps steps) {
  const bool has_traces = trace::newest_job_traces(folder).has_value();
  const bool has_samples = telemetry::looks_like_upstream(folder);
  const bool needs_log = steps == ExperimentSteps::logged || (!has_traces && !has_samples);
  const std::optional<ExperimentLog> log = needs_log ? log_in(folder) : std::nullopt;
  if (!has_traces && !has_samples) {
    run::Run run = TPT_TRY(read_log_alone(folder, log));
    join_job(run, folder);
    return run;
  }
  Result<run::Run> traced = has_traces ? read_traces(folder, options) : run::Run();
  const bool chosen = options.ranks || options.step || options.rules;
  if (!traced && (!has_samples || chosen)) return traced;
  run::Run run = has_samples ? TPT_TRY(read_samples(folder)) : *std::move(traced);
  if (!traced)
    run.manifest.notes.push_back(
        fmt::format("{}traces ({})", telemetry::incomplete_note, traced.error().what));
  else if (has_samples && has_traces)
    run = TPT_TRY(with_timeline(std::move(run), *std::move(traced)));
  if (log) join_log(run, *log);
  join_job(run, folder);
  name_gpus(run, folder);
  note_missing_gpus(run);
  return run;
}

std::vector<std::string> missing_parts(const run::Run& run) {
  std::vector<std::string> parts;
  for (const std::string& note : run.manifest.notes)
    if (note.starts_with(telemetry::incomplete_note))
      parts.push_back(note.substr(telemetry::incomplete_note.size()));
  return parts;
}

}  // namespace triplepoint::study
