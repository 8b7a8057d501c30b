// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/steering.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/run/growing_run.h"
#include "triplepoint/run/store.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer_output.h"
#include "triplepoint/advise/steer_scenarios.h"
#include "triplepoint/advise/steer_watch.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::study {
namespace {

using advise::Decision;
using advise::Scenario;

Result<void> require_trained(const spec::Job& job) {
  TPT_TRY(spec::require_valid(job));
  return spec::require_training(job, "jobs are steered");
}

Result<void> require_steerable(const spec::Job& job) {
  TPT_TRY(require_trained(job));
  if (workload::build_work_graph(job).memory.fits()) return {};
  return error(
      "the job does not fit in memory (nothing could be steered); triplepoint simulate "
      "shows where it goes");
}

Result<std::vector<Scenario>> chosen_scenarios(const spec::Job& job, Seconds duration,
                                               const std::optional<std::string>& name) {
  const auto& own = job.environment.faults;
  if (!name && !own.empty())
    return std::vector<Scenario>{{"own-faults", "what the job says goes wrong", own}};
  if (!own.empty())
    return error(
        "the job has its own faults (a scenario would be a second story); leave "
        "--scenario out");
  if (name.value_or("all") == "all") return advise::scenarios_for(job, duration);
  return std::vector<Scenario>{TPT_TRY(advise::scenario_named(job, duration, *name))};
}

advise::SteeredScenario steer_scenario(tui::Console& console, const spec::Job& job,
                                       const Scenario& scenario, advise::SteerOptions options) {
  const auto looks = static_cast<std::size_t>(options.duration / options.interval + 1);
  tui::Progress progress(console, "Simulating " + scenario.name, looks);
  options.advance = [&] { progress.advance(); };
  spec::Job disturbed = job;
  disturbed.environment.faults = scenario.faults;
  return {scenario.name, scenario.about, advise::steer(disturbed, options)};
}

bool is_growing(const std::string& file) {
  return path_exists(run::tail_of(file));
}

Result<spec::Job> job_of(const run::Run& run, const WatchOptions& options) {
  if (options.job) return *options.job;
  if (run.manifest.job) return *run.manifest.job;
  return error(
      fmt::format("{}: the run has no job (no forecast is possible); "
                  "record with --job, or name the job here as well",
                  options.run));
}

Json advice_json(const Decision& decision, const std::string& run, const spec::Job& job) {
  Json json = {{"schema", 1}, {"run", run}, {"job", job.name}};
  json.update(advise::decision_json(decision));
  return json;
}

class Watch {
 public:
  Watch(tui::Console& console, const WatchOptions& options, const spec::Job& job)
      : console_(console), options_(options), job_(job), watcher_(job, options.steer) {
    if (options.hook) hook_.emplace(*options.hook, options.hook_timeout, options.steer.rules.dwell);
  }

  /// Every whole window that is there.
  void take(const run::Run& run) {
    const auto extent = advise::extent_of(run);
    if (!extent) return;
    if (!next_) next_ = extent->begin + options_.warm_up;
    while (*next_ + options_.steer.interval <= extent->end && !interrupted()) {
      const Seconds end = *next_ + options_.steer.interval;
      const auto decision = watcher_.look(advise::window_of(run, *next_, end), end);
      if (decision) report(*decision);
      next_ = end;
      ++windows_;
    }
  }

  void finish() {
    if (options_.json) return;
    if (!watcher_.has_baseline())
      console_.print("No window had whole steps with clock, power and temperature of every GPU.\n");
    else
      console_.print(fmt::format("{} windows seen, {} times advised, hook failures {}.\n", windows_,
                                 advised_, hook_ ? hook_->failures() : 0));
  }

 private:
  void report(const Decision& decision) {
    const bool moves = decision.kind != advise::MoveKind::leave;
    const bool is_old = moves && decision.setting == last_advice_;
    Json json = advice_json(decision, options_.run, job_);
    if (moves && !is_old) {
      ++advised_;
      last_advice_ = decision.setting;
      if (hook_) act(decision, json);
    }
    if (options_.json) {
      console_.print(json_text(json, -1) + "\n");
      console_.flush();
      return;
    }
    const auto width = console_.abilities().width.value_or(100);
    console_.print(tui::wrap(fmt::format("{:>8.0f} s  {}", decision.time / unit::s, decision.seen),
                             width, "            ") +
                   "\n");
    console_.print(tui::wrap(fmt::format("            -> {}{}: {}{}", is_old ? "still: " : "",
                                         decision.action, decision.reason,
                                         moves && !hook_ ? " (advice; nothing was changed)" : ""),
                             width, "            ") +
                   "\n");
    if (!hook_says_.empty()) console_.print("            " + hook_says_ + "\n");
    hook_says_.clear();
    console_.flush();
  }

  void act(const Decision& decision, Json& json) {
    const advise::Hook::Outcome outcome = hook_->call(json_text(json) + "\n", decision.time);
    hook_says_ = outcome.says;
    json["hook"] = {{"called", outcome.called},
                    {"worked", outcome.worked},
                    {"says", outcome.says},
                    {"failures", hook_->failures()}};
    if (outcome.worked) watcher_.followed();
  }

  tui::Console& console_;
  const WatchOptions& options_;
  spec::Job job_;
  advise::Watcher watcher_;
  std::optional<advise::Hook> hook_;
  std::optional<Seconds> next_;
  int64_t windows_ = 0, advised_ = 0;
  std::string last_advice_, hook_says_;
};

/// Waits for more of the recording; ends at once when asked to.
void wait_a_moment() {
  for (int i = 0; i < 10 && !interrupted(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

}  // namespace

Result<std::vector<advise::SteeredScenario>> steer_scenarios(tui::Console& console,
                                                             const spec::Job& job,
                                                             const std::optional<std::string>& name,
                                                             const advise::SteerOptions& options) {
  TPT_TRY(require_steerable(job));
  std::vector<advise::SteeredScenario> all;
  for (const Scenario& scenario : TPT_TRY(chosen_scenarios(job, options.duration, name))) {
    if (interrupted()) break;
    all.push_back(steer_scenario(console, job, scenario, options));
  }
  return all;
}

Result<void> watch_run(tui::Console& console, const WatchOptions& options) {
  // Asked before the file is read: what comes later is seen by the next round.
  bool growing = is_growing(options.run);
  run::Run run = TPT_TRY(run::load(options.run));
  const spec::Job job = TPT_TRY(job_of(run, options));
  TPT_TRY(require_trained(job));
  Watch watch(console, options, job);
  watch.take(run);
  while (growing && !interrupted()) {
    wait_a_moment();
    growing = is_growing(options.run);
    run = TPT_TRY(run::load(options.run));
    watch.take(run);
  }
  watch.finish();
  return {};
}

}  // namespace triplepoint::study
