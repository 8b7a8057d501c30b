// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer.h"

#include <algorithm>

#include "triplepoint/advise/steer_control.h"
#include "triplepoint/advise/steer_track.h"

namespace triplepoint::advise {
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
  const Forecast calm = foresee(fixed.world(), fixed.job());
  options.interval = std::max(options.interval, 2.5 * calm.step_time);
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
