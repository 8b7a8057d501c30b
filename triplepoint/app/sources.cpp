// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/sources.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/quoting.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/gap.h"
#include "triplepoint/app/library_text.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/store/store.h"
#include "triplepoint/telemetry/recorder/closing.h"
#include "triplepoint/telemetry/timeseries/reader.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/logs/training_log.h"
#include "triplepoint/trace/read.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::app {
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
    run.steps.push_back({.begin = span.begin,
                         .end = span.end,
                         .samples = run.numbers.samples_per_step.value_or(0)});
  run.timeline = {};
  run.manifest.notes.emplace_back(
      "a training's log tells the time of each step, not what ran in it");
}

Result<run::Run> read_run(const std::vector<std::string>& files,
                          const trace_report::TraceOptions& options) {
  const bool as_it_is = !options.ranks && !options.step && !options.rules;
  if (files.size() == 1 && trace_report::is_run_file(files[0]) && as_it_is)
    return run::load(files[0]);
  if (files.size() == 1 && as_it_is && telemetry::looks_like_time_series(files[0]))
    return telemetry::read_time_series(files[0]);
  auto read = trace_report::read_trace_input(files, options, trace::HostSpans::ops);
  if (const auto why = read ? std::nullopt : telemetry::why_no_time_series(files[0]))
    return error(*why);
  trace_report::TraceInput input = TPT_TRY(std::move(read));
  if (input.format == "training_log") take_steps_from_log(input.run);
  run::Manifest& manifest = input.run.manifest;
  if (manifest.producer.empty()) manifest.producer = "triplepoint, from " + input.format;
  std::move(input.remarks.begin(), input.remarks.end(), std::back_inserter(manifest.notes));
  return std::move(input.run);
}

void shift(run::Timeline& timeline, int64_t by) {
  for (run::Span& span : timeline.spans) {
    span.begin = Instant(span.begin.nanoseconds() + by);
    span.end = Instant(span.end.nanoseconds() + by);
  }
}

run::Extent extent_of_readings(const run::Run& run) {
  run::Extent all;  // time 0 is that of the first
  for (const run::Series& series : run.series)
    if (!series.times.empty()) all.end = std::max(all.end, series.times.back());
  return all;
}

/// Where the time 0 of traces or a log lies on the recording's clock: by the wall clocks of both,
/// or, where one has none, with the first span at the begin of the recording's step. Stamps of logs
/// and tables may be of another zone: then there has to be one half hour by which all of it lies
/// within the recording.
Result<int64_t> offset_of(const run::Run& recording, const run::Run& other, std::string& said) {
  constexpr int64_t half_hour = int64_t{1800} * 1'000'000'000, most = 28;
  const run::Extent within = extent_of_readings(recording);
  run::Extent of = run::extent(other.timeline).value_or(run::Extent{});
  if (!other.steps.empty()) of = {other.steps.front().begin, other.steps.back().end};
  const auto &here = other.manifest.epoch_unix_ns, &there = recording.manifest.epoch_unix_ns;
  if (!here || !there) {
    said = "the traces have no wall clock: their first span is laid at the begin of the step";
    const Instant begin = recording.steps.empty() ? Instant() : recording.steps.front().begin;
    return begin.nanoseconds() - of.begin.nanoseconds();
  }
  const auto shared = [&](int64_t by) {
    return std::min(within.end, Instant(of.end.nanoseconds() + by)) -
           std::max(within.begin, Instant(of.begin.nanoseconds() + by));
  };
  const int64_t by = *here - *there;
  const bool is_recorded = recording.manifest.origin == run::Origin::measured;
  if (is_recorded && !other.timeline.empty()) {
    if (!recording.steps.empty() && shared(by) <= Seconds())
      said = "the traces are of another time than the recording (are both of one job?)";
    return by;
  }
  const Seconds enough = 0.9 * (of.end - of.begin);
  std::vector<int64_t> zones;
  for (int64_t zone = -most; zone <= most; ++zone)
    if (shared(by + zone * half_hour) >= enough) zones.push_back(zone);
  if (shared(by) >= enough || (zones.empty() && shared(by) > Seconds())) return by;
  if (zones.size() != 1)
    return error(
        "{}: it begins {:.1f} h {} the readings of {}{}; give files of one training",
        other.manifest.name, std::abs(as_real(by)) * 1e-9 / 3600, by < 0 ? "before" : "after",
        recording.manifest.name,
        zones.empty() ? " and is not within them" : ", and several time zones would explain that");
  said = fmt::format(
      "the two clocks are taken to be of time zones {} h apart: only so they tell of one time",
      0.5 * as_real(std::abs(zones.front())));
  return by + zones.front() * half_hour;
}

/// The steps of a log that lie within the readings, for a recording that marks none.
void take_steps(run::Run& recording, const run::Run& log, int64_t by) {
  std::vector<std::string>& notes = recording.manifest.notes;
  if (!recording.steps.empty())
    return notes.push_back("the recording marks its steps: those of the log are not used");
  const run::Extent within = extent_of_readings(recording);
  for (run::StepRecord step : log.steps) {
    step.begin = Instant(step.begin.nanoseconds() + by);
    step.end = Instant(step.end.nanoseconds() + by);
    if (step.begin >= within.begin && step.end <= within.end) recording.steps.push_back(step);
  }
  if (recording.steps.size() < log.steps.size())
    notes.push_back(
        fmt::format("{} of {} steps of the log lie within the readings; only these "
                    "are looked at",
                    recording.steps.size(), log.steps.size()));
  telemetry::summarize_steps(recording);
}

}  // namespace

SourceKind kind_of_source(const std::string& source) {
  if (is_folder(source)) return is_study(source) ? SourceKind::study : SourceKind::traces;
  return source.ends_with(".run") ? SourceKind::run : SourceKind::traces;
}

std::optional<std::string> use_of_trace(const std::string& file) {
  auto input = is_folder(file) ? Result<trace::Input>(error("")) : trace::Input::open(file);
  if (!input) return std::nullopt;
  if (kind_of_source(file) == SourceKind::run)
    return fmt::format("{} is a recording that names no job; see it with triplepoint report {}",
                       file, shell_word(file));
  const auto head = input->peek(trace::recognized_by);
  if (!head) return std::nullopt;
  const auto reader = std::ranges::find_if(
      trace::all_readers(), [&](const trace::Reader& each) { return each.recognizes(*head); });
  if (reader == trace::all_readers().end()) return std::nullopt;
  if (reader->format != "training_log")
    return fmt::format("{} is a {} (it holds no job); see it with triplepoint trace breakdown {}",
                       file, reader->what, shell_word(file));
  const auto log = trace::parse_training_log(*input);
  if (!log || log->framework.empty()) return std::nullopt;
  return trace::use_of_training_log(file);
}

std::string stem_of_source(Path file) {
  constexpr std::string_view endings[] = {".gz", ".zst", ".tar", ".json", ".trace", ".pt", ".run"};
  const auto ends = [&](std::string_view ending) { return file.extension() == ending; };
  while (std::any_of(std::begin(endings), std::end(endings), ends))
    file.replace_extension();
  return by_own_name(file).filename().string();
}

Result<run::Run> with_timeline(run::Run recording, run::Run traced) {
  std::string said;
  const int64_t by = TPT_TRY(offset_of(recording, traced, said));
  if (!said.empty()) traced.manifest.notes.push_back(std::move(said));
  if (!traced.steps.empty() && traced.timeline.empty()) {
    take_steps(recording, traced, by);
  } else {
    shift(traced.timeline, by);
    if (std::string ranks = trace_report::take_ranks_from_traces(recording, traced); !ranks.empty())
      traced.manifest.notes.push_back(std::move(ranks));
    recording.timeline = std::move(traced.timeline);
    // Ranks that were not traced are ranks of the job, too.
    for (const run::Device& device : recording.devices)
      recording.timeline.num_ranks =
          std::max(recording.timeline.num_ranks, device.rank.value_or(-1) + 1);
  }
  std::move(traced.manifest.notes.begin(), traced.manifest.notes.end(),
            std::back_inserter(recording.manifest.notes));
  recording.manifest.facts.merge(traced.manifest.facts);
  run::visit_numbers(recording.numbers, traced.numbers,
                     [](const char*, auto& own, const auto& of_traces) {
                       if (!own) own = of_traces;
                     });
  return recording;
}

namespace {

Result<run::Run> load_as_it_is(const std::vector<std::string>& sources,
                               const trace_report::TraceOptions& options) {
  std::vector<std::string> traces, recordings;
  for (const std::string& source : sources)
    (trace_report::is_run_file(source) || telemetry::looks_like_time_series(source) ? recordings
                                                                                    : traces)
        .push_back(source);
  if (recordings.size() > 1)
    return error(
        "{} recordings were named (a page shows one); triplepoint compare shows several, a folder "
        "of .run files is a study, one of tables a recording",
        recordings.size());
  if (traces.empty() || recordings.empty()) return read_run(sources, options);
  run::Run traced = TPT_TRY(read_run(traces, options));
  run::Run recording = TPT_TRY(read_run(recordings, {}));
  if (!traced.manifest.epoch_unix_ns || !recording.manifest.epoch_unix_ns)
    return error(
        "{}: its times cannot be brought to those of {} (one of them tells no date); name only one "
        "of them, or log date and time with each step",
        traces[0], recordings[0]);
  return with_timeline(std::move(recording), std::move(traced));
}

}  // namespace

Result<run::Run> load_run_source(const std::vector<std::string>& sources,
                                 const trace_report::TraceOptions& options) {
  run::Run run = TPT_TRY(load_as_it_is(sources, options));
  if (run.steps.empty() && run.timeline.instances.empty())
    run.steps = advise::steps_of_traces(run.timeline);
  return run;
}

std::vector<spec::Provenance> numbers_of(const run::Run& run) {
  std::vector<spec::Provenance> numbers;
  const Result<spec::Library> library = spec::require_library();
  if (!library || run.manifest.origin != run::Origin::simulated || !run.manifest.job)
    return numbers;
  const spec::Job& job = *run.manifest.job;
  const auto add = [&](const std::string& file) {
    const auto of_file = numbers_of(*library, file);
    if (of_file) numbers.insert(numbers.end(), of_file->begin(), of_file->end());
    return of_file.has_value();
  };
  add("models/" + job.model.name);
  add("stacks/" + job.stack.name);
  if (!add("clusters/" + job.cluster.name)) add("gpus/" + job.cluster.gpu.name);
  for (spec::Provenance& number : numbers)  // the same text wherever the library lies
    if (number.file.starts_with(library->root))
      number.file = number.file.substr(library->root.size() + 1);
  return numbers;
}

std::string page_of_run(const run::Run& run) {
  return report::run_page(run, metrics::measure(run), numbers_of(run));
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
                                  std::vector<Path>& runs) {
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
      job.diagnoses = TPT_TRY(diagnoses_from(entry.at("diagnoses")));
      plan.jobs.push_back(std::move(job));
      runs.push_back(file.parent_path() / "runs" / Path(entry.value("run", "")).filename());
    }
  } catch (const Json::exception& wrong) {
    return error("{}: not a study of ours ({}); run triplepoint characterize again", file.string(),
                 wrong.what());
  }
  return plan;
}

/// A folder of runs without a study file.
Result<spec::StudyPlan> plan_of_runs(const Path& folder, std::vector<Path>& runs) {
  runs = TPT_TRY(list_files(folder, ".run"));
  if (runs.empty())
    return error(
        "{}: no study and no .run file in it (a report needs either); make them with "
        "triplepoint characterize STUDY -o {}",
        folder.string(), folder.string());
  spec::StudyPlan plan{
      folder.string(), fmt::format("Runs in {}", folder.filename().string()), "", {}};
  for (const Path& run : runs) {
    spec::StudyJob job;
    job.job.name = run.stem().string();
    plan.jobs.push_back(std::move(job));
  }
  return plan;
}

std::vector<std::size_t> rows_to_show(const StudyResults& results, RunPages which) {
  std::vector<std::size_t> rows;
  if (which == RunPages::best) rows = best_rows(results.study);
  for (std::size_t i = 0; which == RunPages::all && i < results.study.rows.size(); ++i)
    rows.push_back(i);
  std::erase_if(rows, [&](std::size_t i) {
    const Path& run = results.run_files[i];
    return run.empty() || path_exists(page_of(run));
  });
  return rows;
}

Result<void> write_page(const Path& run_file) {
  const run::Run run = TPT_TRY(run::load(run_file.string()));
  return write_file_atomically(page_of(run_file), page_of_run(run));
}

}  // namespace

Result<StudyResults> load_results(const spec::Library& library, const Path& folder, int threads) {
  std::vector<Path> runs;
  const bool ours = path_exists(folder / study_plan_file);
  spec::StudyPlan plan = ours ? TPT_TRY(read_plan(library, folder / study_plan_file, runs))
                              : TPT_TRY(plan_of_runs(folder, runs));
  std::vector<StudyItem> items(plan.jobs.size());
  parallel_for(items.size(), threads, [&](std::size_t i) {
    StudyItem& item = items[i];
    item.job = &plan.jobs[i];
    item.file = runs[i];
    item.suite = plan.suite.get();
    if (spec::has_errors(plan.jobs[i].diagnoses)) {
      take_diagnoses(item);
      return;
    }
    if (!path_exists(runs[i])) return;  // not simulated yet
    const Result<run::Run> run = run::load(runs[i].string());
    if (!run) {
      item.problem = run.error().what;
      return;
    }
    if (run->manifest.job) {
      std::string name = std::move(plan.jobs[i].job.name);
      plan.jobs[i].job = *run->manifest.job;
      plan.jobs[i].job.name = std::move(name);
    }
    take_run(item, *run);
  });
  TPT_TRY(first_problem(items));
  StudyResults results = collect(items, plan);
  link_run_pages(results, folder);
  return results;
}

std::vector<std::size_t> best_rows(const report::Study& study) {
  std::vector<std::size_t> rows;
  for (const report::Group& group : report::groups_of(study)) {
    const report::Answers answers = report::answers_for(group);
    for (const report::StudyRow* row : {answers.fastest, answers.thriftiest, answers.hottest})
      if (row != nullptr) rows.push_back(as_size(row - study.rows.data()));
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Result<void> write_run_pages(const Watch& watch, StudyResults& results, const Path& folder,
                             RunPages which, int threads) {
  const std::vector<std::size_t> rows = rows_to_show(results, which);
  watch.begin("Writing pages", rows.size());
  std::vector<std::string> problems(rows.size());
  parallel_for(rows.size(), threads, [&](std::size_t i) {
    if (const auto written = write_page(results.run_files[rows[i]]); !written)
      problems[i] = written.error().what;
    watch.advance();
  });
  for (const std::string& problem : problems)
    if (!problem.empty()) return error(problem);
  link_run_pages(results, folder);
  return {};
}

std::vector<std::string> warnings_of(const report::Study& study) {
  std::map<std::string, std::vector<std::string>> jobs_of;
  for (const report::StudyRow& row : study.rows)
    for (const spec::Diagnosis& diagnosis : row.diagnoses)
      if (diagnosis.severity == spec::Diagnosis::Severity::warning)
        jobs_of[diagnosis.what].push_back(row.name);
  return mapped(jobs_of, [](const auto& warning) {
    const auto& [what, jobs] = warning;
    const std::string more = jobs.size() > 1 ? fmt::format(" and {} more", jobs.size() - 1) : "";
    return fmt::format("{}{}: {}", jobs.front(), more, what);
  });
}

}  // namespace triplepoint::app
