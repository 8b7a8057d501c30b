// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/sources.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/run/store.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/metrics/trace_tables/input.h"
#include "triplepoint/report/figures/paper_figures.h"
#include "triplepoint/study/experiments.h"
#include "triplepoint/study/runner.h"
#include "triplepoint/study/study_output.h"
#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::study {
namespace {

/// A folder that characterize made, or one of runs; else it is a folder of traces.
bool is_study(const Path& folder) {
  if (path_exists(folder / "study.json")) return true;
  const auto runs = list_files(folder, ".run");
  const auto all = list_files(folder, "");
  return (runs && !runs->empty()) || !all || all->empty();
}

/// A training's log tells when its steps were, not what ran in them: steps instead of a timeline,
/// in which everything would be idle.
void take_steps_from_log(run::Run& run) {
  for (const run::Span& span : run.timeline.spans)
    run.steps.push_back({.begin = span.begin, .end = span.end});
  run.timeline = {};
  run.manifest.notes.emplace_back(
      "a training's log tells the time of each step, not what ran in it");
}

enum class Log { alone, beside_recording };

Result<run::Run> read_run(const std::vector<std::string>& files,
                          const metrics::TraceOptions& options, Log log) {
  const bool as_it_is = !options.ranks && !options.step && !options.rules;
  if (files.size() == 1 && metrics::is_run_file(files[0]) && as_it_is) return run::load(files[0]);
  if (files.size() == 1 && as_it_is && !is_folder(files[0]) &&
      telemetry::looks_like_upstream(files[0]))
    return telemetry::read_upstream(files[0]);
  if (files.size() == 1 && (is_experiment(files[0]) || out_of_memory(files[0])))
    return read_experiment(files[0], options);
  metrics::TraceInput input =
      TPT_TRY(metrics::read_trace_input(files, options, trace::HostSpans::ops));
  if (input.format == "training_log" && log == Log::alone) take_steps_from_log(input.run);
  run::Manifest& manifest = input.run.manifest;
  if (manifest.producer.empty()) manifest.producer = "triplepoint, from " + input.format;
  std::move(input.remarks.begin(), input.remarks.end(), std::back_inserter(manifest.notes));
  return std::move(input.run);
}

/// The runs of a study, or the experiments in a folder and below; else the source.
Result<std::vector<std::string>> runs_of(const std::string& source) {
  if (!is_folder(source)) return std::vector<std::string>{source};
  std::vector<Path> found = TPT_TRY(list_files(source, ".run"));
  if (found.empty()) found = experiments_in(source);
  if (found.empty()) return std::vector<std::string>{source};  // traces
  std::vector<std::string> files;
  for (const Path& file : found)
    files.push_back(file.string());
  return files;
}

}  // namespace

SourceKind kind_of_source(const std::string& source) {
  if (is_folder(source)) {
    if (out_of_memory(source)) return SourceKind::traces;
    const auto is_tree = [&] { return !is_experiment(source) && !experiments_in(source).empty(); };
    return is_study(source) || is_tree() ? SourceKind::study : SourceKind::traces;
  }
  return source.ends_with(".run") ? SourceKind::run : SourceKind::traces;
}

std::string stem_of_source(Path file) {
  constexpr std::string_view endings[] = {".gz", ".zst", ".tar", ".json", ".trace", ".pt", ".run"};
  const auto ends = [&](std::string_view ending) { return file.extension() == ending; };
  while (std::any_of(std::begin(endings), std::end(endings), ends))
    file.replace_extension();
  return by_own_name(file).filename().string();
}

Result<run::Run> load_run_source(const std::vector<std::string>& sources,
                                 const metrics::TraceOptions& options) {
  std::vector<std::string> traces, recordings;
  for (const std::string& source : sources)
    (metrics::is_run_file(source) ? recordings : traces).push_back(source);
  if (recordings.size() > 1)
    return error(
        fmt::format("{} .run files were named (a page shows one); triplepoint compare shows "
                    "several, a folder of them is a study",
                    recordings.size()));
  if (traces.empty() || recordings.empty()) return read_run(sources, options, Log::alone);
  run::Run traced = TPT_TRY(read_run(traces, options, Log::beside_recording));
  run::Run recording = TPT_TRY(run::load(recordings[0]));
  if (!traced.manifest.epoch_unix_ns || !recording.manifest.epoch_unix_ns)
    return error(
        fmt::format("{}: its times cannot be brought to the traces' (one of them has no wall "
                    "clock); report them one by one",
                    recordings[0]));
  return with_timeline(std::move(recording), std::move(traced));
}

std::vector<spec::Provenance> numbers_of(const run::Run& run) {
  std::vector<spec::Provenance> numbers;
  const Result<spec::Library> library = spec::require_library();
  if (!library || run.manifest.origin != run::Origin::simulated || !run.manifest.job)
    return numbers;
  const spec::Job& job = *run.manifest.job;
  const std::string gpu = job.cluster.gpu.name;
  for (const std::string& file :
       {"models/" + job.model.name, "clusters/" + job.cluster.name, "gpus/" + gpu,
        "stacks/" + job.stack.name, "calibrations/" + gpu + "/kernels",
        "calibrations/" + gpu + "/power", "calibrations/" + gpu + "/thermal"}) {
    const auto of_file = spec::provenance(*library, file);
    if (of_file) numbers.insert(numbers.end(), of_file->begin(), of_file->end());
  }
  for (spec::Provenance& number : numbers)  // the same text wherever the library lies
    if (number.file.starts_with(library->root))
      number.file = number.file.substr(library->root.size() + 1);
  return numbers;
}

namespace {

struct LoadedJob {
  report::PaperJob job;
  std::optional<std::vector<metrics::KernelSeconds>> sums;  // of kernels, of each rank
  std::string remark;
};

Result<LoadedJob> load_paper_job(const std::string& file) {
  LoadedJob loaded;
  const std::string name = stem_of_source(file);
  const bool experiment = is_experiment(file);
  if (experiment) loaded.sums = TPT_TRY(read_kernel_stats(file));
  const Result<run::Run> run = experiment
                                   ? read_experiment(file, {}, ExperimentSteps::whole_recording)
                                   : load_run_source({file}, {});
  if (!run && !loaded.sums) return error(run.error().what);
  if (const auto parts = run ? missing_parts(*run) : std::vector<std::string>(); !parts.empty())
    loaded.remark = fmt::format("{}: incomplete: {}", name, fmt::join(parts, "; "));
  loaded.job = run ? report::paper_job(*run, metrics::measure(*run), name, file)
                   : report::paper_job(run::Run(), {}, name, file);
  return loaded;
}

/// Sums of kernels stand in for traces that are not there.
void take_sums(report::PaperJob& job, const std::vector<metrics::KernelSeconds>& of_ranks) {
  std::map<int32_t, double> counts;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].total() <= Seconds()) continue;
    const auto stage = static_cast<int32_t>(static_cast<int64_t>(rank) / job.ranks_per_stage);
    job.kernels[stage] += of_ranks[rank];
    counts[stage] += 1;
  }
  for (auto& [stage, kernels] : job.kernels)
    kernels *= 1 / counts[stage];
}

/// What the folder of an experiment without samples says by its name, with as many GPUs as the
/// first experiment beside it that has some.
report::PaperJob job_by_name(const Path& folder, const std::vector<std::string>& files,
                             const std::vector<LoadedJob>& jobs) {
  run::Run none;
  for (std::size_t i = 0; i < files.size() && none.devices.empty(); ++i)
    if (Path(files[i]).parent_path() == folder.parent_path())
      none.devices.resize(jobs[i].job.metrics.temperature_per_gpu_c.size());
  return report::paper_job(none, {}, folder.filename().string(), folder);
}

}  // namespace

Result<FigureJobs> load_paper_jobs(const std::vector<std::string>& sources) {
  std::vector<std::string> files;
  std::vector<Path> empty;
  for (const std::string& source : sources) {
    for (std::string& one : TPT_TRY(runs_of(source)))
      files.push_back(std::move(one));
    if (is_folder(source)) std::ranges::move(out_of_memory_in(source), std::back_inserter(empty));
  }
  std::vector<LoadedJob> jobs(files.size());
  std::vector<std::string> problems(files.size());
  parallel_for(files.size(), available_threads(), [&](std::size_t i) {
    Result<LoadedJob> job = load_paper_job(files[i]);
    if (job)
      jobs[i] = std::move(*job);
    else
      problems[i] = job.error().what;
  });
  FigureJobs found;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!problems[i].empty()) {
      if (files.size() == 1 || !is_folder(files[i])) return error(problems[i]);
      found.remarks.push_back("left out: " + problems[i]);
      continue;
    }
    if (!jobs[i].remark.empty()) found.remarks.push_back(jobs[i].remark);
    report::PaperJob job = jobs[i].job;
    if (job.machine.empty() && is_experiment(files[i])) {  // no samples tell the number of GPUs
      const report::PaperJob named = job_by_name(files[i], files, jobs);
      job.machine = named.machine;
      job.layout = named.layout;
      job.pipeline = named.pipeline;
      job.ranks_per_stage = named.ranks_per_stage;
    }
    if (job.kernels.empty() && jobs[i].sums) take_sums(job, *jobs[i].sums);
    found.jobs.push_back(std::move(job));
  }
  for (const Path& folder : empty) {
    found.jobs.push_back(job_by_name(folder, files, jobs));
    found.jobs.back().fits_memory = false;
  }
  return found;
}

Result<report::Study> load_study_source(const std::string& folder) {
  const spec::Library library = TPT_TRY(spec::require_library());
  StudyResults results = TPT_TRY(load_results(library, folder, available_threads()));
  return std::move(results.study);
}

// A study that is there already, read from its folder.

namespace {

Result<std::vector<spec::Diagnosis>> diagnoses_from(const Json& list) {
  std::vector<spec::Diagnosis> diagnoses;
  for (const Json& entry : list) {
    spec::Diagnosis diagnosis;
    const std::string code = entry.value("code", "");
    if (const auto known = spec::enum_from_name<spec::DiagnosisCode>(code)) diagnosis.code = *known;
    diagnosis.severity = entry.value("severity", "") == "warning"
                             ? spec::Diagnosis::Severity::warning
                             : spec::Diagnosis::Severity::error;
    diagnosis.what = entry.value("what", "");
    diagnoses.push_back(std::move(diagnosis));
  }
  return diagnoses;
}

/// study.json back as a plan; jobs that were simulated get their job from their run.
Result<spec::StudyPlan> read_plan(const spec::Library& library, const Path& file,
                                  std::vector<Path>& runs, std::set<std::string>& failed) {
  const std::string text = TPT_TRY(read_file(file));
  const Json json = TPT_TRY(parse_json(text, file.string()));
  spec::StudyPlan plan;
  try {
    plan = {json.value("study", ""), json.value("title", ""), json.value("about", ""), {}};
    if (const std::string suite = json.value("suite", ""); !suite.empty())
      plan.suite = std::make_shared<spec::StudyPlan>(
          TPT_TRY(spec::parse_study(library, suite, file.string())));
    for (const Json& entry : json.at("jobs")) {
      spec::StudyJob job;
      if (entry.contains("job"))
        job.job =
            TPT_TRY(spec::parse_job(library, entry.at("job").get<std::string>(), file.string()));
      job.job.name = entry.value("name", "");
      if (entry.value("failed", false)) failed.insert(job.job.name);
      job.diagnoses = TPT_TRY(diagnoses_from(entry.at("diagnoses")));
      plan.jobs.push_back(std::move(job));
      runs.push_back(file.parent_path() / "runs" / Path(entry.value("run", "")).filename());
    }
  } catch (const Json::exception& wrong) {
    return error(fmt::format("{}: not a study of ours ({}); run triplepoint characterize again",
                             file.string(), wrong.what()));
  }
  return plan;
}

/// A folder of runs without a study file.
Result<spec::StudyPlan> plan_of_runs(const Path& folder, std::vector<Path>& runs) {
  runs = TPT_TRY(list_files(folder, ".run"));
  if (runs.empty()) runs = experiments_in(folder);
  if (!runs.empty() && is_folder(runs.front())) {
    std::ranges::move(out_of_memory_in(folder), std::back_inserter(runs));
    std::sort(runs.begin(), runs.end());
  }
  if (runs.empty())
    return error(
        fmt::format("{}: no study and no .run file in it (a report needs either); make them with "
                    "triplepoint characterize STUDY -o {}",
                    folder.string(), folder.string()));
  spec::StudyPlan plan{
      folder.string(), fmt::format("Runs in {}", folder.filename().string()), "", {}};
  const std::vector<std::string> names = experiment_names(runs, folder);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    spec::StudyJob job;
    job.job.name = is_folder(runs[i]) ? names[i] : runs[i].stem().string();
    plan.jobs.push_back(std::move(job));
  }
  return plan;
}

/// Of a recording of the artifact without a configuration: what its name and its folders tell.
void take_names(report::StudyRow& row, const Path& file) {
  run::Run shape;
  shape.devices.resize(std::max<std::size_t>(1, row.slots.size()));
  const std::string name = is_folder(file) ? by_own_name(file).filename() : file.stem();
  report::PaperJob told = report::paper_job(shape, {}, name, file);
  if (told.model.empty()) return;
  if (row.slots.empty()) {  // out of memory: no device tells their number, the layout does
    shape.devices.resize(static_cast<std::size_t>(told.pipeline * told.ranks_per_stage));
    told = report::paper_job(shape, {}, name, file);
  }
  row.told_model = told.model + (told.task.empty() ? "" : " (" + told.task + ")");
  if (row.told_machine.empty()) row.told_machine = told.machine;
}

}  // namespace

Result<StudyResults> load_results(const spec::Library& library, const Path& folder, int threads) {
  std::vector<Path> runs;
  std::set<std::string> failed;
  const bool ours = path_exists(folder / study_plan_file);
  spec::StudyPlan plan = ours ? TPT_TRY(read_plan(library, folder / study_plan_file, runs, failed))
                              : TPT_TRY(plan_of_runs(folder, runs));
  std::vector<StudyItem> items(plan.jobs.size());
  parallel_for(items.size(), threads, [&](std::size_t i) {
    StudyItem& item = items[i];
    item.job = &plan.jobs[i];
    item.file = runs[i];
    item.suite = plan.suite.get();
    if (spec::has_errors(plan.jobs[i].diagnoses)) {
      take_diagnoses(item);
      if (failed.contains(item.job->job.name)) mark_failed(item);
      return;
    }
    if (!path_exists(runs[i])) return;  // not simulated yet
    if (auto why = is_folder(runs[i]) ? out_of_memory(runs[i]) : std::nullopt) {
      take_verdict(item, plan.jobs[i], report::Verdict::oom, *std::move(why));
      return;
    }
    const Result<run::Run> run =
        is_folder(runs[i]) ? read_experiment(runs[i], {}) : run::load(runs[i].string());
    if (!run && is_folder(runs[i])) {  // one experiment of a tree does not cost the others
      take_verdict(item, plan.jobs[i], report::Verdict::unreadable, run.error().what);
      return;
    }
    if (!run) {
      item.problem = run.error().what;
      return;
    }
    if (run->manifest.job) {
      std::string name = std::move(plan.jobs[i].job.name);
      plan.jobs[i].job = *run->manifest.job;
      plan.jobs[i].job.name = std::move(name);
    }
    for (std::string& part : missing_parts(*run))
      plan.jobs[i].diagnoses.push_back({.code = spec::DiagnosisCode::inconsistent,
                                        .severity = spec::Diagnosis::Severity::warning,
                                        .what = "incomplete: " + std::move(part)});
    take_results(item, *run);
  });
  TPT_TRY(first_problem(items));
  for (StudyItem& item : items)
    if (item.row && !item.row->has_job && item.row->origin == run::Origin::imported)
      take_names(*item.row, item.file);
  StudyResults results = collect(items, plan);
  link_run_pages(results, folder);
  return results;
}

}  // namespace triplepoint::study
