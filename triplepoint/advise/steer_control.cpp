// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_control.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

#include "triplepoint/advise/steer_scenarios.h"

namespace triplepoint::advise {
namespace {

// What is called a change: below these, a calm machine wanders.
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

std::optional<SteerReadings> Eye::see(const SteerReadings& look) {
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

/// The clock limit that is best on a calm machine; where a limit gains nothing, none.
void Controller::tune() {
  spec::Job calm = base_;
  calm.environment.faults.clear();
  const sim::TransientSimulation machine(calm);
  const Forecast free = foresee(machine, calm);
  double best = 1;
  SteerSetting chosen = present_;
  // From the top down; the objective has one minimum along a clock limit.
  int worse = 0;
  for (const SteerSetting& tried : clock_ladder(present_)) {
    const double ratio =
        worth(free, foresee(machine, job_with(calm, tried)), {}, unit::h, options_.goal);
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
  if (!alarm.empty()) eye_.forget();
  const std::optional<SteerReadings> steady = eye_.see(*look);
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

Controller::Outlook Controller::look_ahead(const Track& track, const SteerReadings& seen,
                                           Seconds horizon) const {
  const spec::Job known = known_at(base_, track.now());
  Outlook outlook;
  outlook.leave = foresee(track.world(), job_with(known, present_));
  if (!(outlook.leave.step_time > Seconds())) return outlook;
  MoveOptions moves = options_.moves;
  moves.may_restart = moves.may_restart && after_checkpoint(track.now());
  for (Candidate& candidate : candidates(base_, initial_, present_, seen, moves)) {
    const Forecast forecast = foresee(track.world(), job_with(known, candidate.setting));
    if (!(forecast.step_time > Seconds())) continue;
    const MoveCost cost{candidate.restarts ? options_.restart : Seconds(), idle_power(base_)};
    outlook.options.push_back({words_of(candidate.setting, base_), candidate.restarts,
                               worth(outlook.leave, forecast, cost, horizon, options_.goal)});
    outlook.forecasts.push_back(forecast);
    outlook.candidates.push_back(std::move(candidate));
  }
  return outlook;
}

Decision Controller::think(Track& track, const SteerReadings& seen) {
  const Seconds now = track.now();
  Decision decision;
  decision.time = now;
  decision.seen = seen_words_;
  // What has lasted so long lasts as long again, as far as anybody knows.
  decision.horizon = std::max(now - *episode_, options_.interval);
  if (options_.duration > now)
    decision.horizon = std::min(decision.horizon, options_.duration - now);
  SteerReadings judged = seen;
  if (const auto node = node_at_fault()) judged.slowest_node = *node;
  const Outlook outlook = look_ahead(track, judged, decision.horizon);
  const SteerPolicy::Verdict verdict = policy_.choose(now, outlook.options);
  decision.leave = decision.then = outlook.leave;
  decision.action = "leave it";
  decision.reason = verdict.why;
  decision.considered = considered_of(outlook.candidates, outlook.forecasts, outlook.options);
  if (verdict.option) act(track, outlook, *verdict.option, decision);
  decision.setting = policy_.setting();
  return decision;
}

void Controller::act(Track& track, const Outlook& outlook, std::size_t which, Decision& decision) {
  const Candidate& candidate = outlook.candidates[which];
  const Forecast& then = outlook.forecasts[which];
  decision.kind = candidate.kind;
  decision.action = candidate.what;
  decision.ratio = outlook.options[which].ratio;
  decision.then = then;
  decision.cost = candidate.restarts ? options_.restart : Seconds();
  decision.reason = fmt::format(
      "predicted {:.1f} % better: a step {:.3f} s instead of {:.3f} s, {:.1f} kW "
      "instead of {:.1f} kW",
      100 * (1 - decision.ratio), then.step_time / unit::s, outlook.leave.step_time / unit::s,
      then.power / unit::kW, outlook.leave.power / unit::kW);
  present_ = candidate.setting;
  track.change(job());
  if (candidate.restarts) track.pause(options_.restart, idle_power(base_));
  policy_.moved(decision.time, outlook.options[which]);
  // What the move itself changes is no disturbance.
  before_.reset();
  thoughts_.clear();
  eye_.forget();
}

}  // namespace triplepoint::advise
