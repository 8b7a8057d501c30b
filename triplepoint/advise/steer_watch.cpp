// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_watch.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/advise/steer.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {
namespace {

using spec::Fault;
using spec::FaultKind;

constexpr double least_rise_k = 2, least_path = 1.15, least_power = 0.96, least_clock = 0.97;

run::Series part_of(const run::Series& series, Instant begin, Instant end) {
  run::Series part{.signal = series.signal,
                   .device = series.device,
                   .of_node = series.of_node,
                   .times = {},
                   .values = {}};
  const auto first = std::lower_bound(series.times.begin(), series.times.end(), begin);
  const auto last = std::lower_bound(first, series.times.end(), end);
  const auto at = first - series.times.begin();
  if (at > 0 && (first == series.times.end() || *first > begin)) {
    part.times.push_back(begin);
    part.values.push_back(series.values[static_cast<std::size_t>(at - 1)]);
  }
  for (auto time = first; time != last; ++time) {
    part.times.push_back(*time);
    part.values.push_back(series.values[static_cast<std::size_t>(time - series.times.begin())]);
  }
  return part;
}

/// K above the inlet per W of the device, before the fault.
std::vector<double> paths(const SteerReadings& baseline, double inlet) {
  std::vector<double> all;
  for (std::size_t d = 0; d < baseline.die_c.size(); ++d)
    all.push_back(std::max(1e-3, baseline.die_c[d] - inlet) / std::max(1.0, baseline.power_w[d]));
  return all;
}

Fault lasting(FaultKind kind) {
  Fault fault;
  fault.kind = kind;
  return fault;
}

/// Lasting faults of single devices of a node.
void explain_devices(std::vector<Fault>& faults, const spec::Job& job,
                     const SteerReadings& baseline, const SteerReadings& now, std::size_t device,
                     double above_air) {
  const double baseline_path = paths(baseline, job.chassis().inlet.degrees())[device];
  const double path = above_air / (baseline_path * std::max(1.0, now.power_w[device]));
  if (path > least_path) {
    Fault fault = lasting(FaultKind::heat_path);
    fault.gpu = static_cast<int64_t>(device);
    fault.share = path;
    faults.push_back(fault);
  }
  const bool slower = now.clock[device] < least_clock * baseline.clock[device];
  if (slower && now.power_w[device] < least_power * baseline.power_w[device]) {
    Fault fault = lasting(FaultKind::power);
    fault.gpu = static_cast<int64_t>(device);
    fault.share = now.power_w[device] / (job.power_limit() / unit::W);
    faults.push_back(fault);
  }
}

}  // namespace

run::Run window_of(const run::Run& whole, Seconds begin, Seconds end) {
  run::Run window;
  window.manifest = whole.manifest;
  window.devices = whole.devices;
  const Instant from = instant_at(begin), until = instant_at(end);
  for (const run::StepRecord& step : whole.steps)
    if (step.end > from && step.end <= until) window.steps.push_back(step);
  for (const run::Series& series : whole.series)
    window.series.push_back(part_of(series, from, until));
  return window;
}

std::optional<RunExtent> extent_of(const run::Run& run) {
  if (run.steps.empty()) return std::nullopt;
  return RunExtent{run.steps.front().begin - Instant(), run.steps.back().end - Instant()};
}

std::vector<Fault> explain(const spec::Job& job, const SteerReadings& baseline,
                           const SteerReadings& now) {
  std::vector<Fault> faults;
  const double inlet = job.chassis().inlet.degrees();
  const std::vector<double> path = paths(baseline, inlet);
  const auto per_node = static_cast<std::size_t>(job.cluster.gpus_per_node);
  for (std::size_t node = 0; node * per_node < now.die_c.size(); ++node) {
    std::vector<double> air;
    for (std::size_t d = node * per_node; d < (node + 1) * per_node; ++d)
      air.push_back(now.die_c[d] - path[d] * now.power_w[d] - inlet);
    const double rise = median(air);
    if (rise > least_rise_k) {
      Fault fault = lasting(FaultKind::inlet);
      fault.node = static_cast<int64_t>(node);
      fault.rise = rise * unit::K;
      faults.push_back(fault);
    }
    for (std::size_t d = node * per_node; d < (node + 1) * per_node; ++d)
      explain_devices(faults, job, baseline, now, d, now.die_c[d] - inlet - std::max(0.0, rise));
  }
  return faults;
}

std::string words_of(const std::vector<Fault>& faults, const spec::Job& job) {
  std::string words;
  const auto add = [&](const std::string& text) { words += (words.empty() ? "" : "; ") + text; };
  int caps = 0;
  for (const Fault& fault : faults) {
    if (fault.kind == FaultKind::inlet)
      add(fmt::format("inlet of node {} is {:.0f} K warmer", fault.node.value_or(0),
                      fault.rise / unit::K));
    if (fault.kind == FaultKind::heat_path)
      add(fmt::format("GPU {} gets rid of its heat {:.0f} % worse", fault.gpu.value_or(0),
                      100 * (fault.share - 1)));
    if (fault.kind == FaultKind::power && ++caps <= 4)
      add(fmt::format("GPU {} is held at {:.0f} W", fault.gpu.value_or(0),
                      fault.share * (job.power_limit() / unit::W)));
  }
  if (caps > 4) add(fmt::format("{} more GPUs are held below their power", caps - 4));
  return words.empty() ? "neither heat nor power explains it" : words;
}

Watcher::Watcher(const spec::Job& job, const SteerOptions& options)
    : job_(job),
      options_(options),
      present_(setting_of(job)),
      initial_(present_),
      policy_(options.rules, words_of(present_, job)) {}

std::optional<Decision> Watcher::look(const run::Run& window, Seconds now) {
  const std::optional<SteerReadings> seen = readings_of(window, job_);
  if (!seen) return std::nullopt;
  if (!baseline_) {
    baseline_ = before_ = seen;
    return std::nullopt;
  }
  if (!before_) before_ = seen;  // just after a move
  const std::string words = change_words(*before_, *seen);
  if (!words.empty() && !episode_) episode_ = next_thought_ = now;
  // A change is looked at at once, and again after as long as it has lasted.
  if (!episode_ || (now < next_thought_ && words.empty())) return std::nullopt;
  if (now < next_thought_ && now - *episode_ < 2 * options_.interval) return std::nullopt;
  next_thought_ = now + std::max(2 * options_.interval, now - *episode_);
  before_ = seen;
  const std::string against_baseline = change_words(*baseline_, *seen);
  Decision decision = think(*seen, words.empty() ? "still: " + against_baseline : words, now);
  if (against_baseline.empty()) episode_.reset();
  return decision;
}

Decision Watcher::think(const SteerReadings& seen, const std::string& words, Seconds now) {
  Decision decision;
  decision.time = now;
  decision.horizon = std::max(options_.interval, now - *episode_);
  spec::Job known = job_;
  known.environment.faults = explain(job_, *baseline_, seen);
  decision.seen = words + " (" + words_of(known.environment.faults, job_) + ")";
  const sim::TransientSimulation machine(job_with(known, present_));
  decision.leave = decision.then = foresee(machine, machine.job());
  const MoveCost restart{options_.restart, 0.2 * decision.leave.power};
  const std::vector<Candidate> all = candidates(job_, initial_, present_, seen, options_.moves);
  std::vector<SteerOption> options;
  std::vector<Forecast> forecasts;
  for (const Candidate& candidate : all) {
    forecasts.push_back(foresee(machine, job_with(known, candidate.setting)));
    const double ratio =
        worth(decision.leave, forecasts.back(), candidate.restarts ? restart : MoveCost{},
              decision.horizon, options_.goal);
    options.push_back({words_of(candidate.setting, job_), candidate.restarts, ratio});
  }
  decision.considered = considered_of(all, forecasts, options);
  const SteerPolicy::Verdict verdict = policy_.choose(now, options);
  decision.action = "leave it";
  decision.reason = verdict.why;
  decision.setting = policy_.setting();
  advice_.reset();
  if (!verdict.option) return decision;
  const Candidate& chosen = all[*verdict.option];
  decision.kind = chosen.kind;
  decision.action = chosen.what;
  decision.ratio = options[*verdict.option].ratio;
  decision.then = forecasts[*verdict.option];
  decision.cost = chosen.restarts ? options_.restart : Seconds();
  decision.setting = options[*verdict.option].setting;
  decision.reason = fmt::format("predicted {:.1f} % better", 100 * (1 - decision.ratio));
  advice_ = Advice{now, chosen.setting, options[*verdict.option]};
  return decision;
}

void Watcher::followed() {
  if (!advice_) return;
  policy_.moved(advice_->when, advice_->option);
  present_ = advice_->setting;
  before_.reset();
  advice_.reset();
}

}  // namespace triplepoint::advise
