// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/experiment_log.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/upstream/artifact.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/kineto/job_traces.h"
#include "triplepoint/trace/logs/lay_steps.h"
#include "triplepoint/trace/logs/lines.h"
#include "triplepoint/trace/read.h"

namespace triplepoint::study {
namespace {

constexpr std::array endings = {".out", ".err", ".log", ".txt"};

std::vector<Path> log_files(const Path& folder) {
  std::vector<Path> files;
  std::error_code problem, ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (entry.is_regular_file(ignored) &&
        std::find(endings.begin(), endings.end(), entry.path().extension()) != endings.end())
      files.push_back(entry.path());
  std::sort(files.begin(), files.end(), [](const Path& a, const Path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return files;
}

std::optional<trace::TrainingLog> read_log(const Path& file) {
  auto input = trace::Input::open(file);
  if (!input) return std::nullopt;
  const auto head = input->peek(trace::recognized_by);
  if (!head || !trace::looks_like_training_log(*head)) return std::nullopt;
  auto log = trace::parse_training_log(*input);
  if (!log) return std::nullopt;
  return *std::move(log);
}

/// "2000" of slurm-2000.out
bool names_job(const std::string& file, const std::string& job) {
  for (std::size_t at = file.find(job); at != std::string::npos; at = file.find(job, at + 1)) {
    const auto is_digit = [&](std::size_t i) {
      return i < file.size() && file[i] >= '0' && file[i] <= '9';
    };
    if (!(at > 0 && is_digit(at - 1)) && !is_digit(at + job.size())) return true;
  }
  return false;
}

/// "3 steps of 25.4 s on average"
std::string steps_text(const trace::TrainingLog& log, std::string& mean) {
  Seconds sum;
  int64_t count = 0;
  for (const trace::LoggedStep& step : log.steps)
    if (step.time) {
      sum += *step.time;
      ++count;
    }
  if (count == 0) return "steps without a time";
  mean = fmt::format("{:.4g} s", sum / static_cast<double>(count) / unit::s);
  return fmt::format("{} step{}, {} on average", count, count == 1 ? "" : "s", mean);
}

/// Between two samples of power; the window is from the first to the last.
Seconds sampling_period(const run::Run& run, Seconds window) {
  std::size_t most = 0;
  for (const run::Series& series : run.series)
    if (series.signal.starts_with("power")) most = std::max(most, series.values.size());
  return most < 2 ? Seconds() : window / static_cast<double>(most - 1);
}

std::string zone_text(int64_t minutes) {
  return fmt::format("UTC{}{:02}:{:02}", minutes < 0 ? '-' : '+', std::abs(minutes) / 60,
                     std::abs(minutes) % 60);
}

Result<trace::LaidSteps> lay_on(const run::Run& run, const trace::TrainingLog& log) {
  if (!run.manifest.epoch_unix_ns || run.steps.empty())
    return error("there are no power samples with a wall clock");
  const int64_t epoch = *run.manifest.epoch_unix_ns;
  const auto unix_time = [&](Instant at) { return Instant(at.nanoseconds() + epoch); };
  const Instant begin = unix_time(run.steps.front().begin), end = unix_time(run.steps.back().end);
  return trace::lay_steps(log, begin, end, 2 * sampling_period(run, end - begin));
}

}  // namespace

bool is_training_log(const Path& file) {
  const auto log = read_log(file);
  return log && !log->framework.empty();
}

bool has_logs(const Path& folder) {
  return !log_files(folder).empty();
}

std::optional<ExperimentLog> log_in(const Path& folder) {
  std::string job;
  if (const auto traces = trace::newest_job_traces(folder)) {
    job = traces->newest.filename().string();
    job = job.substr(0, job.find('_'));
  }
  std::vector<ExperimentLog> logs;
  for (const Path& file : log_files(folder))
    if (auto log = read_log(file)) logs.push_back({file.filename().string(), *std::move(log), {}});
  if (logs.empty()) return std::nullopt;
  const auto rank = [&](const ExperimentLog& log) {
    return std::tuple(!job.empty() && names_job(log.file, job), log.log.steps.size());
  };
  const auto best = std::max_element(
      logs.begin(), logs.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  ExperimentLog chosen = std::move(*best);
  logs.erase(best);
  for (const ExperimentLog& log : logs)
    chosen.others.push_back(log.file);
  return chosen;
}

std::optional<std::string> log_without_memory(const Path& folder) {
  for (const Path& file : log_files(folder)) {
    auto input = trace::Input::open(file);
    bool found = false;
    const auto look = [&](std::string_view line) {
      found = found || line.find("OutOfMemoryError") != std::string_view::npos ||
              lower_case(line).find("out of memory") != std::string::npos;
    };
    if (input && trace::for_each_line(*input, look) && found) return file.filename().string();
  }
  return std::nullopt;
}

void join_log(run::Run& run, const ExperimentLog& log) {
  std::vector<std::string>& notes = run.manifest.notes;
  if (!log.others.empty())
    notes.push_back(
        fmt::format("the log is {}; {} left aside", log.file, fmt::join(log.others, ", ")));
  std::string mean;
  const std::string steps = steps_text(log.log, mean);
  if (!mean.empty()) run.manifest.facts["logged_step_time"] = mean;
  Result<trace::LaidSteps> laid = lay_on(run, log.log);
  if (!laid) {
    notes.push_back(fmt::format("{} has {}; they are not the steps of this run ({})", log.file,
                                steps, laid.error().what));
    return;
  }
  const int64_t epoch = *run.manifest.epoch_unix_ns;
  for (run::StepRecord& step : laid->steps) {
    step.begin = Instant(step.begin.nanoseconds() - epoch);
    step.end = Instant(step.end.nanoseconds() - epoch);
  }
  run.steps = std::move(laid->steps);
  std::erase_if(notes,
                [](const std::string& note) { return note.starts_with(telemetry::one_step_note); });
  notes.push_back(fmt::format(
      "steps are those of {} that lie in the recording: {} of {} (its clock is {}, within {:g} s)",
      log.file, run.steps.size(), steps, zone_text(laid->zone_minutes),
      laid->resolution / unit::s));
}

}  // namespace triplepoint::study
