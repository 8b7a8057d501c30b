// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/passage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "triplepoint/base/expect.h"

#include "triplepoint/power/gpu_power.h"
#include "triplepoint/sim/record.h"

namespace triplepoint::sim {
namespace {

// Dies move with time constants of a second and more beside a fast pole that follows power at once.
constexpr Seconds grid = 1 * unit::s;
constexpr Seconds for_ever = std::numeric_limits<double>::infinity() * unit::s;
constexpr const char* signals[] = {"power_w", "die_c", "sm_clock_mhz", "throttled_share"};

/// The same training, whatever the room and the limits.
bool trains_alike(const spec::Job& a, const spec::Job& b) {
  return a.task == b.task && a.model == b.model && a.cluster == b.cluster && a.stack == b.stack &&
         a.plan == b.plan;
}

void start_series(run::Run& run) {
  for (size_t d = 0; d < run.devices.size(); ++d)
    for (const char* signal : signals)
      run.series.push_back({.signal = signal,
                            .device = static_cast<int32_t>(d),
                            .of_node = false,
                            .times = {},
                            .values = {}});
}

}  // namespace

Situation::Situation(const spec::Job& the_job)
    : job(the_job), graph(workload::build_work_graph(job)), model(job, graph) {}

Passage::Passage(const spec::Job& job)
    : at_(std::make_unique<Situation>(job)), heat_(at_->job, at_->model.machine) {
  TPT_EXPECT(at_->graph.memory.fits());
  meet_changes();
}

Passage::Passage(const Passage& other)
    : at_(std::make_unique<Situation>(other.at_->job)),
      heat_(other.heat_),
      step_(other.step_),
      has_step_(other.has_step_),
      fresh_(other.fresh_),
      now_(other.now_),
      step_begin_(other.step_begin_),
      standing_until_(other.standing_until_),
      progress_(other.progress_),
      steps_to_redo_(other.steps_to_redo_),
      loss_met_(other.loss_met_) {
  at_->model.set_conditions(other.at_->model.conditions());
}

void Passage::change(const spec::Job& job) {
  if (job == at_->job) return;
  TPT_EXPECT(job.cluster.num_gpus() == at_->job.cluster.num_gpus());
  if (!trains_alike(job, at_->job)) {  // the running step is lost, its successor is another
    progress_ = 0;
    step_begin_ = now_;
  }
  auto next = std::make_unique<Situation>(job);
  TPT_EXPECT(next->graph.memory.fits());
  ClusterHeat heat(next->job, next->model.machine);
  heat.take_over(heat_);
  heat_ = std::move(heat);
  at_ = std::move(next);
  has_step_ = fresh_ = false;
  meet_changes();
}

/// Faults and limits of this moment.
void Passage::meet_changes() {
  const Conditions conditions = conditions_at(at_->job, now_);
  if (at_->model.set_conditions(conditions)) has_step_ = false;
  heat_.set_conditions(conditions);
  fresh_ = false;
  const std::optional<Loss> loss = loss_at(at_->job, now_);
  if (!loss || loss_met_ == now_) return;
  loss_met_ = now_;
  refresh_step();
  const Seconds step_time = step_.played.step_time;
  steps_to_redo_ += static_cast<int64_t>(loss->uncovered / step_time);
  standing_until_ = std::max(standing_until_, now_ + loss->restart);
  progress_ = 0;
}

void Passage::refresh_step() {
  if (fresh_) return;
  if (has_step_)
    update_step(at_->model, heat_.dies(), step_);
  else
    step_ = step_at(at_->model, heat_.dies());
  has_step_ = fresh_ = true;
}

void Passage::settle() {
  step_ = sim::settle(at_->model, heat_);
  has_step_ = fresh_ = true;
}

Seconds Passage::window_end(Seconds until) const {
  const Seconds tick = (std::floor(now_ / grid) + 1) * grid;
  const Seconds change = next_change(at_->job, now_).value_or(for_ever);
  return std::min({tick, change, until});
}

Passage::Activity Passage::activity() const {
  return now_ < standing_until_ ? Activity::standing : Activity::training;
}

/// Nobody computes: no kernel, the lowest clock.
std::vector<Watts> Passage::idle_powers() const {
  const spec::Gpu& gpu = at_->job.cluster.gpu;
  const double lowest = gpu.governor->min_clock / *gpu.max_clock;
  spec::GpuLoad nothing;
  nothing.duration = 1 * unit::s;
  const std::vector<Celsius> dies = heat_.dies();
  std::vector<Watts> powers;
  powers.reserve(dies.size());
  for (size_t d = 0; d < dies.size(); ++d)
    powers.push_back(
        power::gpu_power(*gpu.power, nothing, lowest, dies[d], at_->model.machine.boards[d]));
  return powers;
}

void Passage::end_step(Seconds end, Played* played) {
  progress_ = 0;
  const Seconds begin = std::exchange(step_begin_, end);
  if (steps_to_redo_ > 0) {
    --steps_to_redo_;
    return;
  }
  if (!played) return;
  played->run.steps.push_back({.begin = instant_at(begin),
                               .end = instant_at(end),
                               .samples = at_->job.plan.global_batch_size,
                               .tokens = at_->graph.tokens_per_step});
}

/// At constant clocks steps follow each other; the last one goes on behind the window.
void Passage::train(Seconds window, Played* played) {
  const Seconds step_time = step_.played.step_time;
  const Seconds rounding = 1e-12 * (step_time + now_);  // of moments, whose digits are finite
  Seconds at, left = (1 - progress_) * step_time;
  while (at + left <= window + rounding) {
    at += left;
    end_step(now_ + at, played);
    left = step_time;
  }
  progress_ += std::max(Seconds(), window - at) / step_time;
}

void Passage::pass(Activity activity, Seconds end, Played* played) {
  const Seconds window = end - now_;
  std::vector<Watts> powers;
  if (activity == Activity::training) {
    refresh_step();
    powers = mean_powers(step_.devices);
    train(window, played);
  } else {
    powers = idle_powers();
    step_begin_ = end;
  }
  heat_.advance(powers, window);
  now_ = end;
  if (played) append_series(played->run, activity, powers);
  fresh_ = false;
  if (!at_->job.environment.faults.empty()) meet_changes();
}

void Passage::pause(Seconds duration) {
  const Seconds until = now_ + duration;
  while (now_ < until)
    pass(Activity::standing, window_end(until), nullptr);
}

/// A series tells the window behind its stamp, and the die at it.
void Passage::append_series(run::Run& run, Activity activity,
                            const std::vector<Watts>& power) const {
  const spec::Gpu& gpu = at_->job.cluster.gpu;
  const std::vector<Celsius> dies = heat_.dies();
  for (size_t d = 0; d < run.devices.size(); ++d) {
    double mhz = gpu.governor->min_clock / unit::MHz, throttled = 0;
    if (activity == Activity::training) {
      const DeviceStep& device = step_.devices[d];
      mhz = device.mean_clock_ratio * (*gpu.max_clock / unit::MHz);
      throttled = (device.throttled_power + device.throttled_thermal) / step_.played.step_time;
    }
    const double values[] = {power[d] / unit::W, dies[d].degrees(), mhz, throttled};
    for (size_t s = 0; s < std::size(values); ++s) {
      run::Series& series = run.series[d * std::size(values) + s];
      series.times.push_back(instant_at(now_));
      series.values.push_back(values[s]);
    }
  }
}

/// When the last of the steps asked for ends, at the present clocks.
Seconds Passage::to_end_of_steps(const Played& played) const {
  if (!played.horizon.steps || !fresh_) return for_ever;
  const int64_t open = *played.horizon.steps - static_cast<int64_t>(played.run.steps.size());
  const double steps = static_cast<double>(open + steps_to_redo_) - progress_;
  return now_ + steps * step_.played.step_time;
}

run::Run Passage::play(const Horizon& horizon) {
  run::Run run = start_run(at_->job, at_->graph);
  start_series(run);
  Played played{run, horizon, horizon.duration ? now_ + *horizon.duration : for_ever};
  const auto steps_left = [&] {
    return !horizon.steps || static_cast<int64_t>(run.steps.size()) < *horizon.steps;
  };
  while (now_ < played.until && steps_left()) {
    const Activity doing = activity();
    if (doing == Activity::training) refresh_step();
    pass(doing, window_end(std::min(played.until, to_end_of_steps(played))), &played);
  }
  refresh_step();
  record_summaries(run, at_->model, step_);
  return run;
}

void Passage::record_detail(run::Run& run, const Horizon& horizon) {
  refresh_step();
  std::vector<run::StepRecord> steps = std::move(run.steps);
  const Instant begin = steps.empty() ? Instant() : steps.back().begin;
  record_step(run, at_->model, step_, heat_, begin,
              {.duration = {}, .steps = {}, .timeline = false});
  if (horizon.timeline) record_timeline(run.timeline, at_->model, step_, begin);
  run.steps = std::move(steps);
}

}  // namespace triplepoint::sim
