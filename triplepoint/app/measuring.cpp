// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/measuring.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/app/recording.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/app/training.h"
#include "triplepoint/flags/job_results.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace_report/input.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::app {
namespace {

namespace fs = std::filesystem;

double mean_step_s(const run::Run& run) {
  const double sum = sum_of(
      run.steps, [](const run::StepRecord& step) { return (step.end - step.begin) / unit::s; });
  return run.steps.empty() ? 0 : sum / as_real(run.steps.size());
}

/// The last line with a word in it.
std::string last_line(const std::string& text) {
  size_t end = text.find_last_not_of(" \t\r\n-");
  if (end == std::string::npos) return "";
  const size_t begin = text.find_last_of('\n', end);
  constexpr size_t most = 300;
  return text.substr(begin == std::string::npos ? 0 : begin + 1, std::min(most, end - begin));
}

/// The line of an output that says most: the trainer's own sentence, not the launcher's around it.
std::string telling_line(const std::string& printed) {
  constexpr std::array words = {"triplepoint-train:", "triplepoint:", "Error:", "error:"};
  for (const char* word : words)
    if (const size_t at = printed.rfind(word); at != std::string::npos) {
      const size_t begin = printed.rfind('\n', at);
      return last_line(printed.substr(begin == std::string::npos ? 0 : begin + 1,
                                      printed.find('\n', at) - begin));
    }
  return last_line(printed);
}

bool speaks_of_memory(const std::string& printed) {
  constexpr std::array words = {"out of memory", "OutOfMemory", "std::bad_alloc",
                                "Cannot allocate memory", "oom-kill"};
  return std::ranges::any_of(words, [&](const char* word) { return contains(printed, word); });
}

std::string printed_into(const Path& log) {
  const auto text = read_file(log);
  constexpr size_t max_output_bytes = 20'000;
  if (!text) return "";
  return text->size() > max_output_bytes ? text->substr(text->size() - max_output_bytes) : *text;
}

/// The repetition in the middle, with what all of them said.
run::Run middle_of(std::vector<run::Run> runs) {
  std::ranges::sort(
      runs, [](const run::Run& a, const run::Run& b) { return mean_step_s(a) < mean_step_s(b); });
  const double least = mean_step_s(runs.front()), most = mean_step_s(runs.back());
  const size_t count = runs.size();
  run::Run middle = std::move(runs[(count - 1) / 2]);
  middle.numbers.repeats = static_cast<int64_t>(count);
  if (count > 1) middle.numbers.repeat_spread = (most - least) / mean_step_s(middle);
  return middle;
}

/// More than the peak cannot be: then the peak is wrong.
std::optional<std::string> peak_note(const run::Run& run, const spec::Job& job) {
  if (!run.model_flops || !run.peak_flops || mean_step_s(run) <= 0) return std::nullopt;
  const double achieved = *run.model_flops / unit::FLOP / mean_step_s(run);
  const double peak = *run.peak_flops / (unit::FLOP / unit::s) * as_real(job.world_size());
  if (achieved <= peak) return std::nullopt;
  return fmt::format(
      "the MFU of {:.0f} % is above 100 %: the peak of {:.4g} TFLOP/s per rank is below what this "
      "machine reaches (it is the cluster's, or was measured while other programs ran); measure "
      "the machine with triplepoint calibrate --this-machine when nothing else runs",
      100 * achieved / peak, *run.peak_flops / (unit::FLOP / unit::s) * 1e-12);
}

/// The traces that a profiler left of it, on its time line. Traces that cannot be read do not cost
/// the recording.
Result<run::Run> with_traces(run::Run run, const Path& folder) {
  const auto traces = trace::newest_job_traces(folder);
  if (!traces || !run.timeline.empty()) return run;
  auto input = trace_report::read_trace_input({traces->newest.string()}, {}, trace::HostSpans::ops);
  if (!input) {
    run.manifest.notes.push_back("the profiler's traces are left out: " + input.error().what);
    return run;
  }
  return with_timeline(std::move(run), std::move(input->run));
}

Result<run::Run> load_recording(const formats::JobFiles& files, int64_t repeat,
                                const spec::Job& job) {
  run::Run run = TPT_TRY(run::load(files.recording(repeat).string()));
  if (run.steps.empty()) {
    std::vector<std::string> why = run.manifest.notes;
    if (why.empty()) why.emplace_back("the step time is unknown");
    return error("the training of {} marked no steps ({}); see docs/measure/recording.md and {}",
                 job.name, fmt::join(why, "; "), files.log().string());
  }
  run.manifest.job = job;
  run.manifest.name = job.name;
  if (const auto note = peak_note(run, job)) run.manifest.notes.push_back(*note);
  return with_traces(std::move(run), files.traces(repeat));
}

struct SlurmState {
  bool known = false;
  std::string word;  // PENDING, RUNNING, ...
};

/// What a small command prints; nothing if it fails.
Result<std::string> ask(const std::vector<std::string>& command, const Path& answer,
                        const std::function<bool()>& stopped) {
  std::error_code ignored;
  fs::remove(answer, ignored);
  const GroupEnd end = TPT_TRY(run_in_group(command, answer, unit::min, stopped));
  const std::string text = TPT_TRY(read_file(answer));
  fs::remove(answer, ignored);
  if (end.how == GroupEnd::How::exited && end.code == 0) return text;
  return error("{} failed ({}); see whether Slurm answers sinfo", command[0], last_line(text));
}

}  // namespace

std::string failure_sentence(int code, const std::string& printed, const Path& log) {
  const std::string line = telling_line(printed);
  const std::string said = line.empty() ? "it printed nothing" : line;
  constexpr int killed = 128 + SIGKILL;
  if (speaks_of_memory(printed) || code == killed)
    return fmt::format("the training ran out of memory or was killed ({}); see {}", said,
                       log.string());
  if (code > 128)
    return fmt::format("the training was ended by signal {} ({}); see {}", code - 128, said,
                       log.string());
  return fmt::format("the training ended with exit code {} ({}); see {}", code, said, log.string());
}

Result<JobMeasurer> JobMeasurer::make(const Path& folder, const formats::MeasurePlan& plan,
                                      const Path& program, Watch watch) {
  JobMeasurer measurer;
  std::error_code problem;
  measurer.folder_ = fs::absolute(folder, problem).lexically_normal();
  measurer.plan_ = plan;
  measurer.program_ = program;
  measurer.watch_ = std::move(watch);
  for (const char* part : {"jobs", "scripts", "logs", "work", "launch"})
    TPT_TRY(make_folder(measurer.folder_ / part));
  return measurer;
}

formats::JobFiles JobMeasurer::files_of(const spec::Job& job, const std::string& stem) const {
  const std::string key = fmt::format("{} {} {}", spec::write_job(job), plan_.steps, plan_.warmup);
  return {folder_, fmt::format("{}-{}", stem, digest(key).substr(0, 8))};
}

Result<void> JobMeasurer::write_files(const spec::Job& job, const formats::JobFiles& files,
                                      Seconds limit) const {
  TPT_TRY(write_file_atomically(files.job(), spec::write_job(job)));
  for (const formats::LaunchFile& file : formats::launch_files(job, files, plan_))
    TPT_TRY(write_file_atomically(file.path, file.text));
  TPT_TRY(write_file_atomically(files.script(),
                                formats::job_script(job, files, plan_, limit, program_)));
  return {};
}

Result<std::optional<run::Run>> JobMeasurer::operator()(const spec::Job& job,
                                                        const std::string& stem) const {
  TPT_TRY(require_trainable(job));
  if (formats::stack_of(job) == formats::TrainingStack::unknown)
    return error(
        "no launch script for the stack {} ({}); supported are triplepoint train, "
        "Megatron-LM, NeMo and torchtitan",
        job.stack.name, job.stack.framework);
  const formats::JobFiles files = files_of(job, stem);
  const RunTime time = run_time(job, plan_);
  const Seconds limit = time.limit;
  TPT_TRY(write_files(job, files, limit));
  std::vector<run::Run> runs;
  std::string remark = limit_remark(job, plan_, time);
  for (int64_t repeat = 1; repeat <= plan_.repeats; ++repeat) {
    if (!path_exists(files.done(repeat))) {
      if (!remark.empty()) watch_.say(std::exchange(remark, ""));
      if (plan_.scripts_only) return std::optional<run::Run>();
      if (!TPT_TRY(launch(files, repeat, limit))) return std::optional<run::Run>();
    }
    runs.push_back(TPT_TRY(load_recording(files, repeat, job)));
    for (const auto& note : {busy_machine_note(runs.back().numbers), peak_note(runs.back(), job)})
      if (note) watch_.say(fmt::format("{}: {}", job.name, *note));
  }
  return std::optional(middle_of(std::move(runs)));
}

Result<bool> JobMeasurer::launch(const formats::JobFiles& files, int64_t repeat,
                                 Seconds limit) const {
  std::error_code ignored;
  fs::remove(files.recording(repeat), ignored);
  if (repeat == 1) fs::remove(files.log(), ignored);
  return plan_.launcher == "slurm" ? run_by_slurm(files, repeat)
                                   : run_locally(files, repeat, limit);
}

Result<bool> JobMeasurer::run_locally(const formats::JobFiles& files, int64_t repeat,
                                      Seconds limit) const {
  const std::vector<std::string> command = {"bash", files.script().string(),
                                            std::to_string(repeat)};
  const GroupEnd end = TPT_TRY(run_in_group(command, files.log(), limit, watch_.stopped));
  if (end.how == GroupEnd::How::stopped || watch_.stopped()) return false;
  if (end.how == GroupEnd::How::timed_out)
    return error(
        "the training was still running after {} and was ended (the time-out); see {}, "
        "or give a longer --timeout",
        limit_text(limit), files.log().string());
  if (end.code != 0)
    return error(failure_sentence(end.code, printed_into(files.log()), files.log()));
  return true;
}

Result<bool> JobMeasurer::run_by_slurm(const formats::JobFiles& files, int64_t repeat) const {
  const Path answer = files.folder / "work" / (files.stem + ".slurm");
  std::string id =
      TPT_TRY(ask({"sbatch", "--parsable", files.script().string(), std::to_string(repeat)}, answer,
                  watch_.stopped));
  id = id.substr(0, id.find_first_not_of("0123456789"));
  while (!watch_.stopped()) {
    const auto state = ask({"squeue", "-h", "-j", id, "-o", "%T"}, answer, watch_.stopped);
    // A job that has ended is forgotten after some minutes, or at once.
    const bool waits =
        state && (state->starts_with("PENDING") || state->starts_with("RUNNING") ||
                  state->starts_with("CONFIGURING") || state->starts_with("COMPLETING") ||
                  state->starts_with("SUSPENDED"));
    if (!waits) {
      if (path_exists(files.done(repeat))) return true;
      const std::string word = state ? last_line(*state) : std::string("gone");
      return error("Slurm's job {} ended as {} ({}); see {}", id, word.empty() ? "failed" : word,
                   telling_line(printed_into(files.log())), files.log().string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  (void)ask({"scancel", id}, answer, [] { return false; });
  return false;
}

Result<StudyResults> measure_study(const Watch& watch, const spec::StudyPlan& study,
                                   const Path& folder, const formats::MeasurePlan& plan, bool retry,
                                   int at_once) {
  std::error_code problem;
  const JobMeasurer measurer = TPT_TRY(JobMeasurer::make(
      folder, plan, std::filesystem::read_symlink("/proc/self/exe", problem), watch));
  watch.begin(plan.scripts_only ? "Writing scripts" : "Measuring", study.jobs.size());
  return run_study(
      study, folder, at_once,
      {.watch = watch,
       .program_digest = fmt::format("measured {} {} {}", plan.repeats, plan.steps, plan.warmup),
       .measure = measurer,
       .retry_failures = retry});
}

Result<StudyResults> simulate_study(const Watch& watch, const spec::Library& library,
                                    const spec::StudyPlan& study,
                                    const std::optional<learn::Calibration>& own,
                                    const Path& folder, int threads) {
  const auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
  watch.begin("Simulating", study.jobs.size());
  return run_study(study, folder, threads,
                   {.simulate =
                        [&](const spec::Job& job) {
                          run::Run run = sim::simulate(job, {});
                          flags::state_interval(run, intervals, own);
                          return run;
                        },
                    .watch = watch,
                    .program_digest = program_digest(library)});
}

RunTime run_time(const spec::Job& job, const formats::MeasurePlan& plan) {
  RunTime time;
  Seconds least = RunTime::least_if_unsure;
  if (!spec::has_errors(spec::diagnose(job))) {
    std::optional<Seconds> step = sim::find_steady_step_time(job);
    if (step) {
      least = {};
    } else {
      time.fits_memory = workload::build_work_graph(job).memory.fits();
      step = sim::steady_step_time(job);
    }
    time.steps = as_real(plan.steps) * *step;
  }
  const Seconds wanted = RunTime::start_up + RunTime::margin * time.steps.value_or(Seconds());
  time.limit = plan.timeout.value_or(
      std::min(RunTime::most, std::max(least, std::ceil(wanted / unit::min) * unit::min)));
  return time;
}

std::string limit_text(Seconds time) {
  const auto text = [&](Seconds unit, const char* name) {
    const double count = time / unit;
    return count < 100 ? fmt::format("{:.3g} {}", count, name)
                       : fmt::format("{:.0f} {}", count, name);
  };
  if (time < 2 * unit::min) return text(unit::s, "s");
  if (time < 2 * unit::h) return text(unit::min, "min");
  return time < 48 * unit::h ? text(unit::h, "h") : text(24 * unit::h, "days");
}

std::string limit_remark(const spec::Job& job, const formats::MeasurePlan& plan,
                         const RunTime& time) {
  if (time.steps && *time.steps > time.limit)
    return fmt::format(
        "{}: its {} steps take {} in the simulation, longer than the time limit of {}; give a "
        "longer --timeout, or fewer --steps",
        job.name, plan.steps, limit_text(*time.steps), limit_text(time.limit));
  if (time.fits_memory) return "";
  return fmt::format("{} does not fit in memory in the simulation; it is run all the same",
                     job.name);
}

}  // namespace triplepoint::app
