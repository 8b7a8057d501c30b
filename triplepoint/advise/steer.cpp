// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

#include "triplepoint/advise/steer_scenarios.h"

namespace triplepoint::advise {

std::optional<SteerReadings> Track::advance(Seconds duration) {
  const Seconds begin = now();
  const run::Run window = world_.advance(duration);
  count_steps(window);
  count_energy(window, begin);
  totals_.time += duration;
  auto seen = readings_of(window, job());
  add_point(window, begin, seen);
  return seen;
}

void Track::pause(Seconds duration, Watts power) {
  world_.pause(duration);
  totals_.time += duration;
  totals_.energy += power * duration;
  step_begin_ = now();
}

SteerTotals Track::finished() const {
  SteerTotals all = totals_;
  if (last_step_ > Seconds()) all.steps += std::min(1.0, (now() - step_begin_) / last_step_);
  return all;
}

void Track::count_steps(const run::Run& window) {
  for (const run::StepRecord& step : window.steps) {
    totals_.tokens_per_step = step.tokens;
    last_step_ = step.end - step.begin;
    step_begin_ = step.end - Instant();
  }
  totals_.steps += static_cast<double>(window.steps.size());
}

/// power_w is the mean since the stamp before.
void Track::count_energy(const run::Run& window, Seconds begin) {
  for (const run::Series& series : window.series) {
    if (series.signal == "die_c")
      for (const double degrees : series.values)
        totals_.hottest = std::max(totals_.hottest, Celsius(degrees));
    if (series.signal != "power_w") continue;
    Instant last = instant_at(begin);
    for (std::size_t i = 0; i < series.times.size(); ++i) {
      totals_.energy += series.values[i] * unit::W * (series.times[i] - last);
      last = series.times[i];
    }
  }
}

namespace {

/// Of values that are means since the stamp before. A single window of a governor that goes to and
/// fro is no picture of the time since the last look.
double mean_since(const run::Series& series, Seconds begin) {
  double sum = 0, time = 0;
  Instant last = instant_at(begin);
  for (std::size_t i = 0; i < series.times.size(); ++i) {
    const double seconds = (series.times[i] - last) / unit::s;
    sum += seconds * series.values[i];
    time += seconds;
    last = series.times[i];
  }
  return time > 0 ? sum / time : series.values.back();
}

}  // namespace

void Track::add_point(const run::Run& window, Seconds begin,
                      const std::optional<SteerReadings>& seen) {
  SteerPoint point;
  point.time = now();
  if (seen) point.step_time_s = seen->step_time / unit::s;
  double clocks = 0, lowest = 1e9, gpus = 0;
  for (const run::Series& series : window.series) {
    if (series.values.empty()) continue;
    const double mean = mean_since(series, begin);
    if (series.signal == "power_w") point.power_w += mean;
    if (series.signal == "die_c") point.hottest_c = std::max(point.hottest_c, series.values.back());
    if (series.signal != "sm_clock_mhz") continue;
    clocks += mean;
    lowest = std::min(lowest, mean);
    gpus += 1;
  }
  if (gpus > 0) {
    point.lowest_clock_mhz = lowest;
    point.mean_clock_mhz = clocks / gpus;
  }
  points_.push_back(point);
}

Watts idle_power(const spec::Job& job) {
  const Watts each = job.cluster.gpu.power ? job.cluster.gpu.power->idle : Watts();
  return static_cast<double>(job.world_size()) * each;
}

namespace {

// What is called a change: a fault-free machine drifts by less.
constexpr double step_moved = 0.004, power_moved = 0.015, clock_moved = 0.01, heat_moved = 2.0;
// Two looks agree within these; heat that still drifts does not count.
constexpr double step_agrees = 0.03, power_agrees = 0.03;

bool agree(const SteerReadings& a, const SteerReadings& b) {
  return std::abs(a.step_time / b.step_time - 1) < step_agrees &&
         std::abs(a.power / b.power - 1) < power_agrees;
}

void add(std::vector<double>& sum, const std::vector<double>& more) {
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += more[i];
}

SteerReadings mean_of(const std::vector<SteerReadings>& looks) {
  SteerReadings mean = looks.back();
  const auto count = static_cast<double>(looks.size());
  for (std::size_t i = 0; i + 1 < looks.size(); ++i) {
    mean.step_time += looks[i].step_time;
    mean.power += looks[i].power;
    mean.lowest_clock += looks[i].lowest_clock;
    mean.mean_clock += looks[i].mean_clock;
    add(mean.clock, looks[i].clock);
    add(mean.die_c, looks[i].die_c);
    add(mean.power_w, looks[i].power_w);
  }
  mean.step_time /= count;
  mean.power /= count;
  mean.lowest_clock /= count;
  mean.mean_clock /= count;
  for (auto* list : {&mean.clock, &mean.die_c, &mean.power_w})
    for (double& value : *list)
      value /= count;
  return mean;
}

std::string fault_words(const spec::Fault& fault) {
  const std::string kind(spec::enum_name(fault.kind));
  if (fault.gpu) return fmt::format("{} of GPU {}", kind, *fault.gpu);
  if (fault.node) return fmt::format("{} of node {}", kind, *fault.node);
  return kind + " everywhere";
}

}  // namespace

std::optional<SteerReadings> DebounceFilter::update(const SteerReadings& look) {
  constexpr std::size_t most = 4;
  looks_.push_back(look);
  if (looks_.size() > most) looks_.erase(looks_.begin());
  const std::size_t count = looks_.size();
  if (count >= 2 && agree(looks_[count - 2], look)) return look;
  if (count == most) return mean_of(looks_);
  return std::nullopt;
}

std::string change_words(const SteerReadings& before, const SteerReadings& now) {
  std::string words;
  const auto say = [&](const std::string& text) { words += (words.empty() ? "" : "; ") + text; };
  const auto change = [&](const char* what, double ratio, double least) {
    if (std::abs(ratio - 1) > least)
      say(fmt::format("{} {:.1f} % {}", what, 100 * std::abs(ratio - 1),
                      ratio > 1 ? "up" : "down"));
  };
  change("step time", now.step_time / before.step_time, step_moved);
  change("power", now.power / before.power, power_moved);
  if (std::abs(now.lowest_clock - before.lowest_clock) > clock_moved)
    say(fmt::format("slowest GPU at {:.0f} % of its clock, on node {}", 100 * now.lowest_clock,
                    now.slowest_node));
  const auto hottest = static_cast<std::size_t>(now.hottest_device);
  if (std::abs(now.die_c[hottest] - before.die_c[hottest]) > heat_moved)
    say(fmt::format("GPU {} at {:.0f} C", now.hottest_device, now.die_c[hottest]));
  return words;
}

std::vector<Considered> considered_of(const std::vector<Candidate>& candidates,
                                      const std::vector<Forecast>& forecasts,
                                      const std::vector<SteerOption>& options) {
  std::vector<Considered> all;
  for (std::size_t i = 0; i < options.size(); ++i)
    all.push_back({candidates[i], options[i].setting, options[i].ratio, forecasts[i]});
  std::stable_sort(all.begin(), all.end(),
                   [](const Considered& a, const Considered& b) { return a.ratio < b.ratio; });
  return all;
}

Controller::Controller(const spec::Job& base, const SteerOptions& options)
    : base_(base), options_(options), present_(setting_of(base)), policy_(options.rules, "") {
  if (options.tune) tune();
  initial_ = present_;
  policy_ = SteerPolicy(options.rules, words_of(present_, base_));
}

/// The clock limit that is best on a fault-free machine; where a limit gains nothing, none.
void Controller::tune() {
  spec::Job fault_free = base_;
  fault_free.environment.faults.clear();
  const sim::TransientSimulation machine(fault_free);
  const Forecast free = foresee(machine, fault_free);
  double best = 1;
  SteerSetting chosen = present_;
  // From the top down; the objective has one minimum along a clock limit.
  int worse = 0;
  for (const SteerSetting& tried : clock_ladder(present_)) {
    const double ratio =
        worth(free, foresee(machine, job_with(fault_free, tried)), {}, unit::h, options_.goal);
    worse = ratio < best ? 0 : worse + 1;
    if (ratio < best - 1e-6) {
      best = ratio;
      chosen = tried;
    }
    if (worse == 3) break;
  }
  present_ = chosen;
}

/// What an alarm would say: a fault came, or went.
std::string Controller::diagnosis_change(Seconds now) {
  const std::vector<spec::Fault> known = known_at(base_, now).environment.faults;
  std::string words;
  const auto say = [&](const std::string& text) { words += (words.empty() ? "" : "; ") + text; };
  const auto has = [](const std::vector<spec::Fault>& all, const spec::Fault& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (const spec::Fault& fault : known)
    if (!has(diagnosis_, fault)) say("alarm: " + fault_words(fault));
  for (const spec::Fault& fault : diagnosis_)
    if (!has(known, fault)) say("over: " + fault_words(fault));
  diagnosis_ = known;
  return words;
}

/// Within an episode only what was not thought about before is news: drifting heat and what goes to
/// and fro is none.
bool Controller::is_news(const SteerReadings& seen) const {
  return std::none_of(thoughts_.begin(), thoughts_.end(),
                      [&](const SteerReadings& thought) { return agree(thought, seen); });
}

/// The one node that the diagnosis names.
std::optional<int64_t> Controller::node_at_fault() const {
  for (const spec::Fault& fault : diagnosis_) {
    if (fault.node) return fault.node;
    if (fault.gpu) return *fault.gpu / base_.cluster.gpus_per_node;
  }
  return std::nullopt;
}

Seconds Controller::next_checkpoint(Seconds now) const {
  return (std::floor(now / options_.checkpoint_interval + 1e-9) + 1) * options_.checkpoint_interval;
}

bool Controller::after_checkpoint(Seconds now) const {
  const Seconds last = next_checkpoint(now) - options_.checkpoint_interval;
  return last > Seconds() && now - last < options_.interval;
}

void Controller::look(Track& track, const std::optional<SteerReadings>& look,
                      std::vector<Decision>& decisions) {
  if (!look) return;
  const Seconds now = track.now();
  const std::string alarm = diagnosis_change(now);
  if (!alarm.empty()) debounce_.forget();
  const std::optional<SteerReadings> steady = debounce_.update(*look);
  if (!before_ && steady) before_ = steady;
  std::string words;
  if (before_ && steady) words = change_words(*before_, *steady);
  const std::string both = alarm.empty() || words.empty() ? alarm + words : alarm + "; " + words;
  if (!both.empty() && (!alarm.empty() || !episode_ || is_news(*steady))) {
    if (!episode_) episode_ = now;
    next_thought_ = now;
    seen_words_ = both;
  }
  if (!episode_ || now < next_thought_) return;
  decisions.push_back(think(track, steady.value_or(*look)));
  if (decisions.back().kind == MoveKind::leave) {
    if (steady) before_ = steady;
    thoughts_.push_back(steady.value_or(*look));
  }
  // What lasts is thought about ever more rarely, and when a restart would be cheap.
  next_thought_ =
      std::min(now + std::max(2 * options_.interval, now - *episode_), next_checkpoint(now));
  const bool over = diagnosis_.empty() && present_ == initial_;
  if (over) {
    episode_.reset();
    thoughts_.clear();
  }
}

Controller::Alternatives Controller::look_ahead(const Track& track, const SteerReadings& seen,
                                                Seconds horizon) const {
  const spec::Job known = known_at(base_, track.now());
  Alternatives alternatives;
  alternatives.leave = foresee(track.world(), job_with(known, present_));
  if (!(alternatives.leave.step_time > Seconds())) return alternatives;
  MoveOptions moves = options_.moves;
  moves.may_restart = moves.may_restart && after_checkpoint(track.now());
  for (Candidate& candidate : candidates(base_, initial_, present_, seen, moves)) {
    const Forecast forecast = foresee(track.world(), job_with(known, candidate.setting));
    if (!(forecast.step_time > Seconds())) continue;
    const MoveCost cost{candidate.restarts ? options_.restart : Seconds(), idle_power(base_)};
    alternatives.options.push_back(
        {words_of(candidate.setting, base_), candidate.restarts,
         worth(alternatives.leave, forecast, cost, horizon, options_.goal)});
    alternatives.forecasts.push_back(forecast);
    alternatives.candidates.push_back(std::move(candidate));
  }
  return alternatives;
}

Decision Controller::think(Track& track, const SteerReadings& seen) {
  const Seconds now = track.now();
  Decision decision;
  decision.time = now;
  decision.seen = seen_words_;
  // Expected remaining duration of a disturbance: as long as it has lasted.
  decision.horizon = std::max(now - *episode_, options_.interval);
  if (options_.duration > now)
    decision.horizon = std::min(decision.horizon, options_.duration - now);
  SteerReadings judged = seen;
  if (const auto node = node_at_fault()) judged.slowest_node = *node;
  const Alternatives alternatives = look_ahead(track, judged, decision.horizon);
  const SteerPolicy::Verdict verdict = policy_.choose(now, alternatives.options);
  decision.leave = decision.then = alternatives.leave;
  decision.action = "leave it";
  decision.reason = verdict.why;
  decision.considered =
      considered_of(alternatives.candidates, alternatives.forecasts, alternatives.options);
  if (verdict.option) act(track, alternatives, *verdict.option, decision);
  decision.setting = policy_.setting();
  return decision;
}

void Controller::act(Track& track, const Alternatives& alternatives, std::size_t which,
                     Decision& decision) {
  const Candidate& candidate = alternatives.candidates[which];
  const Forecast& then = alternatives.forecasts[which];
  decision.kind = candidate.kind;
  decision.action = candidate.what;
  decision.ratio = alternatives.options[which].ratio;
  decision.then = then;
  decision.cost = candidate.restarts ? options_.restart : Seconds();
  decision.reason = fmt::format(
      "predicted {:.1f} % better: a step {:.3f} s instead of {:.3f} s, {:.1f} kW "
      "instead of {:.1f} kW",
      100 * (1 - decision.ratio), then.step_time / unit::s, alternatives.leave.step_time / unit::s,
      then.power / unit::kW, alternatives.leave.power / unit::kW);
  present_ = candidate.setting;
  track.change(job());
  if (candidate.restarts) track.pause(options_.restart, idle_power(base_));
  policy_.moved(decision.time, alternatives.options[which]);
  // What the move itself changes is no disturbance.
  before_.reset();
  thoughts_.clear();
  debounce_.forget();
}

namespace {

/// An alternative, taken at a moment after all.
double ratio_of(const spec::Job& base, const SteerSetting& initial, const Considered& each,
                Seconds when, const SteerOptions& options) {
  Track track(job_with(base, initial));
  track.advance(when);
  track.change(job_with(base, each.candidate.setting));
  if (each.candidate.restarts) track.pause(options.restart, idle_power(base));
  if (options.duration > track.now()) track.advance(options.duration - track.now());
  return objective_of(track.finished(), options.goal);
}

/// Everything was left: what would the alternatives that looked best have brought?
std::vector<Checked> check(const spec::Job& base, const SteerSetting& initial,
                           const SteerOptions& options, const SteerOutcome& outcome) {
  constexpr std::size_t most_limits = 3;
  // Of the decisions the one that knew most alternatives, the first of them.
  const Decision* richest = &outcome.decisions.front();
  for (const Decision& decision : outcome.decisions)
    if (decision.considered.size() > richest->considered.size()) richest = &decision;
  std::vector<Checked> all;
  std::size_t limits = 0;
  for (const Considered& each : richest->considered) {
    // Of what restarts, everything; of limits, of which there are many, the best.
    if (!each.candidate.restarts && ++limits > most_limits) continue;
    const double objective = ratio_of(base, initial, each, richest->time, options);
    all.push_back({each.candidate.what, objective / objective_of(outcome.fixed, options.goal)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Checked& a, const Checked& b) { return a.ratio < b.ratio; });
  return all;
}

void simulate_both(Track& fixed, Track& steered, Controller& controller,
                   const SteerOptions& options, SteerOutcome& outcome) {
  const auto next = [&](const Track& track) {
    return std::min(options.interval, options.duration - track.now());
  };
  while (steered.now() < options.duration || fixed.now() < options.duration) {
    if (options.stopped && options.stopped()) break;
    if (fixed.now() < options.duration) fixed.advance(next(fixed));
    if (steered.now() < options.duration) {
      const auto seen = steered.advance(next(steered));
      if (steered.now() < options.duration) controller.look(steered, seen, outcome.decisions);
    }
    if (options.advance) options.advance();
  }
  outcome.stopped = options.stopped && options.stopped();
}

}  // namespace

double objective_of(const SteerTotals& totals, search::Goal goal) {
  if (goal == search::Goal::throughput) return totals.step_time();
  if (goal == search::Goal::energy) return totals.joules_per_step();
  return totals.energy_delay();
}

SteerOutcome steer(const spec::Job& job, const SteerOptions& asked) {
  SteerOutcome outcome;
  SteerOptions options = asked;
  Controller controller(job, options);
  outcome.initial = controller.policy().setting();
  Track fixed(controller.job()), steered(controller.job());
  // A look that sees no whole step sees nothing.
  const Forecast fault_free = foresee(fixed.world(), fixed.job());
  options.interval = std::max(options.interval, 2.5 * fault_free.step_time);
  simulate_both(fixed, steered, controller, options, outcome);
  outcome.fixed = fixed.finished();
  outcome.steered = steered.finished();
  outcome.fixed_points = fixed.take_points();
  outcome.steered_points = steered.take_points();
  outcome.moves = controller.policy().moves();
  outcome.restarts = controller.policy().restarts();
  const bool left = outcome.moves == 0 && !outcome.decisions.empty();
  if (left && options.check && !outcome.stopped)
    outcome.checked = check(job, controller.initial(), options, outcome);
  return outcome;
}

}  // namespace triplepoint::advise
