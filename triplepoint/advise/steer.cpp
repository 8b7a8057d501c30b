// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "triplepoint/base/statistics.h"

#include "triplepoint/search/objective.h"

namespace triplepoint::advise {
namespace {

/// Of the devices (W) while training is paused.
std::vector<double> idle_powers(const spec::Job& job) {
  const Watts each = job.cluster.gpu.power ? job.cluster.gpu.power->idle : Watts();
  return std::vector<double>(as_size(job.cluster.num_gpus()), each / unit::W);
}

/// "alarm: node=1,fan=0.2": what one list of faults has and the other lacks, as --fault takes it.
void add_difference(std::vector<std::string>& words, const char* what,
                    const std::vector<spec::Fault>& all, const std::vector<spec::Fault>& known) {
  for (spec::Fault fault : all) {
    if (holds(known, fault)) continue;
    fault.begin = Seconds();
    words.push_back(what + spec::to_text(fault));
  }
}

}  // namespace

Controller::Controller(const spec::Job& base, const SteerOptions& options)
    : base_(base), options_(options), policy_(options.rules, "") {
  tune_clocks();
  initial_ = present_;
  policy_ = SteerPolicy(options.rules, words_of(present_, base_));
  const sim::TransientSimulation machine(job());
  options_.interval =
      std::max(options_.interval, 2.5 * foresee(machine, job(), options_.scope).step_time);
}

/// The clock limit that is best on a fault-free machine; where a limit gains nothing, none.
void Controller::tune_clocks() {
  spec::Job fault_free = base_;
  fault_free.environment.faults.clear();
  const sim::TransientSimulation machine(fault_free);
  const Forecast free = foresee(machine, fault_free, options_.scope);
  double best = 1;
  const SteerSetting given = present_;
  for (const SteerMove& move :
       possible_moves(base_, given, given, 0, {.spares = 0, .may_restart = false})) {
    const Forecast then = foresee(machine, job_with(fault_free, move.setting), options_.scope);
    const double ratio = worth(free, then, {}, unit::h);
    if (ratio >= best - 1e-6) continue;
    best = ratio;
    present_ = move.setting;
  }
}

/// Whether a fault came, or went.
bool Controller::diagnose(const std::vector<spec::Fault>& faults) {
  std::vector<std::string> words;
  add_difference(words, "alarm: ", faults, diagnosis_);
  add_difference(words, "over: ", diagnosis_, faults);
  diagnosis_ = faults;
  if (!words.empty()) alarm_ = fmt::format("{}", fmt::join(words, "; "));
  return !words.empty();
}

/// The node that the diagnosis names, else the slowest.
int64_t Controller::suspect(const SteerReadings& read) const {
  const int64_t per_node = base_.cluster.gpus_per_node;
  for (const spec::Fault& fault : diagnosis_)
    if (fault.node || fault.gpu) return fault.node.value_or(fault.gpu.value_or(0) / per_node);
  return static_cast<int64_t>(read.slowest()) / per_node;
}

Seconds Controller::last_checkpoint(Seconds now) const {
  return std::floor(now / options_.checkpoint_interval + 1e-9) * options_.checkpoint_interval;
}

std::optional<Decision> Controller::look(const sim::TransientSimulation& machine,
                                         const SteerReadings& read,
                                         const std::vector<spec::Fault>& faults, Seconds now) {
  if (diagnose(faults)) {
    if (!episode_) episode_ = now;
    next_thought_ = now;
  }
  if (!episode_ || now < next_thought_) return std::nullopt;
  Decision decision = think(machine, read, now);
  if (decision.move) {
    present_ = decision.move->setting;
    policy_.moved(now, *decision.move);
  }
  decision.setting = policy_.setting();
  // What lasts is thought about ever more rarely, and when a restart would be cheap.
  next_thought_ = std::min(now + std::max(2 * options_.interval, now - *episode_),
                           last_checkpoint(now) + options_.checkpoint_interval);
  if (diagnosis_.empty() && present_ == initial_) episode_.reset();
  return decision;
}

Decision Controller::think(const sim::TransientSimulation& machine, const SteerReadings& read,
                           Seconds now) {
  spec::Job known = base_;
  known.environment.faults = diagnosis_;
  Decision decision{.time = now, .seen = std::exchange(alarm_, "nothing new")};
  // Expected remaining duration of a disturbance: as long as it has lasted.
  decision.horizon =
      std::min(std::max(now - *episode_, options_.interval), options_.duration - now);
  const Forecast leave = foresee(machine, job_with(known, present_), options_.scope);
  MoveOptions allowed = options_.moves;
  const Seconds saved = last_checkpoint(now);
  allowed.may_restart &= saved > Seconds() && now - saved < options_.interval;
  std::vector<SteerMove> moves = possible_moves(base_, initial_, present_, suspect(read), allowed);
  for (SteerMove& move : moves) {
    move.then = foresee(machine, job_with(known, move.setting), options_.scope);
    const MoveCost cost{move.restarts ? options_.restart : Seconds(),
                        power_in(options_.scope, machine, idle_powers(base_))};
    move.ratio = worth(leave, move.then, cost, decision.horizon);
  }
  const SteerPolicy::Verdict verdict = policy_.choose(now, moves);
  decision.reason = verdict.why;
  if (!verdict.move) return decision;
  decision.move = moves[*verdict.move];
  const Forecast& then = decision.move->then;
  decision.cost = decision.move->restarts ? options_.restart : Seconds();
  if (!leave.runs()) {
    decision.reason = fmt::format("left alone, heat ends the job; a step then takes {:.3f} s",
                                  then.step_time / unit::s);
    return decision;
  }
  decision.reason = fmt::format(
      "predicted {:.1f} % better: a step {:.3f} s instead of {:.3f} s, {:.1f} kW {} instead of "
      "{:.1f} kW",
      100 * (1 - decision.move->ratio), then.step_time / unit::s, leave.step_time / unit::s,
      then.power / unit::kW, metrics::scope_text(options_.scope), leave.power / unit::kW);
  return decision;
}

namespace {

/// A machine that is simulated and counted: one side of a comparison. Begins at thermal steady
/// state.
class Track {
 public:
  Track(const spec::Job& job, metrics::EnergyScope scope) : world_(job), scope_(scope) {
    world_.solve_steady_state();
  }

  const sim::TransientSimulation& world() const { return world_; }
  Seconds now() const { return world_.now(); }
  bool runs() const { return side_.ended.empty(); }

  std::optional<SteerReadings> advance(Seconds duration) {
    const Seconds begin = now();
    const run::Run window = world_.advance(duration);
    for (const run::StepRecord& step : window.steps) {
      last_step_ = step.end - step.begin;
      step_begin_ = step.end - Instant();
    }
    side_.totals.steps += as_real(window.steps.size());
    side_.ended = run::shutdown_text(window);
    const Seconds end = runs() ? now() : window.shutdown->time.value_or(now());
    std::vector<double> drawn(as_size(world_.job().cluster.num_gpus()));
    for (const run::Series& series : window.series)
      drawn[as_size(series.device)] += count(series, begin, end) / unit::J;
    const double seconds = (end - begin) / unit::s;
    if (seconds > 0)
      for (double& each : drawn)
        each /= seconds;
    add(drawn, end - begin);
    auto read = readings_of(window, world_.job());
    if (read) side_.looks.emplace_back(now(), *read);
    return read;
  }

  void adopt(const spec::Job& job, Seconds pause) {
    world_.change(job);
    if (!(pause > Seconds())) return;
    world_.pause(pause);
    add(idle_powers(job), pause);
    step_begin_ = now();
  }

  /// The part of the step that is not ended yet counts, as long as steps go on as they did.
  SteerSide finished() {
    if (last_step_ > Seconds())
      side_.totals.steps += std::min(1.0, (now() - step_begin_) / last_step_);
    return std::move(side_);
  }

 private:
  /// What the devices drew (W each) for some time, and the scope with them.
  void add(const std::vector<double>& device_w, Seconds time) {
    side_.totals.time += time;
    for (const double each : device_w)
      side_.totals.device_energy += each * unit::W * time;
    side_.totals.energy += power_in(scope_, world_, device_w) * time;
  }

  /// Energy of a device; power_w is the mean since the stamp before.
  Joules count(const run::Series& series, Seconds begin, Seconds end) {
    Joules drawn;
    Instant last = instant_at(begin);
    for (std::size_t i = 0; i < series.times.size() && last < instant_at(end); ++i) {
      if (series.signal == "die_c")
        side_.totals.hottest = std::max(side_.totals.hottest, Celsius(series.values[i]));
      if (series.signal == "power_w")
        drawn += series.values[i] * unit::W * (series.times[i] - last);
      last = series.times[i];
    }
    return drawn;
  }

  sim::TransientSimulation world_;
  metrics::EnergyScope scope_;
  SteerSide side_;
  Seconds step_begin_, last_step_;
};

using spec::Fault;
using spec::FaultKind;

constexpr double clear_share = 0.05;  // of time
constexpr double least_rise_k = 2, least_path = 1.15, least_power = 0.96, least_clock = 0.97,
                 least_steady_power = 0.8;  // of what a device drew at the baseline

/// Of two digits, as one would write it.
Fault fault_of(FaultKind kind, std::optional<int64_t> Fault::*place, std::size_t number,
               double share) {
  Fault fault;
  fault.kind = kind;
  fault.*place = static_cast<int64_t>(number);
  fault.share = std::round(100 * share) / 100;
  return fault;
}

}  // namespace

std::vector<spec::Fault> faults_known_at(const spec::Job& job, Seconds now) {
  std::vector<spec::Fault> faults = job.environment.faults;
  std::erase_if(faults, [&](const spec::Fault& fault) {
    return fault.begin > now || (fault.end && *fault.end <= now) ||
           fault.kind == spec::FaultKind::node_lost;
  });
  for (spec::Fault& fault : faults)
    fault.end.reset();
  return faults;
}

SteerOutcome steer(const spec::Job& job, const SteerOptions& options) {
  SteerOutcome outcome;
  Controller controller(job, options);
  outcome.initial = controller.policy().setting();
  outcome.scope = options.scope;
  Track fixed(controller.job(), options.scope), steered(controller.job(), options.scope);
  const auto is_open = [&](const Track& track) {
    return track.runs() && track.now() < options.duration;
  };
  const auto advance = [&](Track& track) {
    return track.advance(std::min(controller.interval(), options.duration - track.now()));
  };
  while ((is_open(steered) || is_open(fixed)) && !options.watch.stopped()) {
    if (is_open(fixed)) advance(fixed);
    if (const auto read = is_open(steered) ? advance(steered) : std::nullopt;
        read && is_open(steered)) {
      const Seconds now = steered.now();
      auto decision = controller.look(steered.world(), *read, faults_known_at(job, now), now);
      if (decision && decision->move) steered.adopt(controller.job(), decision->cost);
      if (decision) outcome.decisions.push_back(*std::move(decision));
    }
    options.watch.advance();
  }
  outcome.interrupted = is_open(steered) || is_open(fixed);
  outcome.fixed = fixed.finished();
  outcome.steered = steered.finished();
  outcome.moves = controller.policy().moves();
  outcome.restarts = controller.policy().restarts();
  return outcome;
}

std::vector<Fault> explain(const spec::Job& job, const SteerReadings& baseline,
                           const SteerReadings& now) {
  const double inlet = job.chassis().inlet.degrees(), limit = job.power_limit() / unit::W;
  const auto per_node = as_size(job.cluster.gpus_per_node);
  const auto path = [&](std::size_t d) {
    return std::max(1e-3, baseline.die_c[d] - inlet) / std::max(1.0, baseline.power_w[d]);
  };
  std::vector<Fault> faults;
  for (std::size_t first = 0; first < now.die_c.size(); first += per_node) {
    // A braked device works far from where its thermal path was seen, and says nothing of the air.
    const auto grew = [&](const std::vector<double>& then, const std::vector<double>& before,
                          std::size_t d) {
      return d < then.size() && then[d] > clear_share + (d < before.size() ? before[d] : 0);
    };
    const auto is_braked = [&](std::size_t d) { return grew(now.braked, baseline.braked, d); };
    // Dies lag behind their power: where it has fallen, they are warm for what they draw now.
    const auto tells_air = [&](std::size_t d) {
      return !is_braked(d) && now.power_w[d] > least_steady_power * baseline.power_w[d];
    };
    std::vector<double> air, shares;
    for (std::size_t d = first; d < first + per_node; ++d)
      if (tells_air(d)) air.push_back(now.die_c[d] - path(d) * now.power_w[d] - inlet);
    const double rise = air.empty() ? 0 : median(air);
    if (rise > least_rise_k) {
      faults.push_back(fault_of(FaultKind::inlet, &Fault::node, first / per_node, 1));
      faults.back().rise = std::round(10 * rise) / 10 * unit::K;
    }
    std::vector<Fault> held;
    for (std::size_t d = first; d < first + per_node; ++d) {
      const double above_air = now.die_c[d] - inlet - std::max(0.0, rise);
      const double longer = above_air / (path(d) * std::max(1.0, now.power_w[d]));
      if (longer > least_path && tells_air(d))
        faults.push_back(fault_of(FaultKind::heat_path, &Fault::gpu, d, longer));
      const bool is_held = now.clock[d] < least_clock * baseline.clock[d] &&
                           now.power_w[d] < least_power * baseline.power_w[d] &&
                           !grew(now.hot, baseline.hot, d);
      if (!is_held && !is_braked(d)) continue;
      shares.push_back(now.power_w[d] / limit);
      held.push_back(fault_of(FaultKind::power, &Fault::gpu, d, shares.back()));
    }
    if (held.size() == per_node)
      held = {fault_of(FaultKind::power, &Fault::node, first / per_node, median(shares))};
    faults.insert(faults.end(), held.begin(), held.end());
  }
  return faults;
}

namespace {

/// Steps fill the window, but for one that may still run. Where training stood still, means of
/// clock and power are of both, and look like those of a power limit.
bool trains_throughout(const run::Run& run, run::Extent window) {
  Seconds left = window.end - window.begin, longest;
  for (const run::StepRecord& step : run.steps) {
    if (step.end <= window.begin || step.begin >= window.end) continue;
    left -= std::min(step.end, window.end) - std::max(step.begin, window.begin);
    longest = std::max(longest, step.end - step.begin);
  }
  return left <= longest;
}

}  // namespace

std::optional<Alarm> Watcher::look(const run::Run& run, run::Extent window) {
  const std::optional<SteerReadings> seen = readings_of(run, job_, window);
  if (!seen || !trains_throughout(run, window)) return std::nullopt;
  if (!baseline_) baseline_ = before_ = seen;
  const std::string words = change_words(*before_, *seen);
  if (words.empty()) return std::nullopt;
  before_ = seen;
  return Alarm{window.end - Instant(), words, explain(job_, *baseline_, *seen)};
}

}  // namespace triplepoint::advise
