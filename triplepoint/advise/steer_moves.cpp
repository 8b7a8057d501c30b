// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_moves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/search/objective.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::advise {

/// Why a move that gains is not taken; empty: it may be.
std::string SteerPolicy::refusal(Seconds now, const SteerMove& move) const {
  if (move.restarts && restarts_ >= rules_.most_restarts)
    return fmt::format("all {} restarts are used", rules_.most_restarts);
  if (last_move_ && now - *last_move_ < rules_.dwell)
    return fmt::format("the last move was only {:.0f} s ago", (now - *last_move_) / unit::s);
  const auto left = left_.find(move.name);
  if (left == left_.end()) return "";
  const Seconds wait = std::exp2(left->second.times) * rules_.dwell;
  if (now - left->second.when >= wait) return "";
  return fmt::format("it was left {:.0f} s ago and may come back after {:.0f} s",
                     (now - left->second.when) / unit::s, wait / unit::s);
}

SteerPolicy::Verdict SteerPolicy::choose(Seconds now, std::span<const SteerMove> moves) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < moves.size(); ++i)
    if (moves[i].name != setting_ && std::isfinite(moves[i].ratio)) order.push_back(i);
  const auto rank = [&](std::size_t i) {  // where heat ends the job that is left, all ratios are 0
    return std::pair(moves[i].ratio, moves[i].then.step_time);
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  std::optional<std::string> why;  // the best of them is left
  for (const std::size_t i : order) {
    const double gain = 1 - moves[i].ratio;
    const double least = moves[i].restarts ? rules_.restart_margin : rules_.margin;
    const bool gains = gain >= least;
    const std::string refused =
        gains ? refusal(now, moves[i]) : fmt::format("a move must gain {:.1f} %", 100 * least);
    if (refused.empty()) return {i, ""};
    if (!why)
      why = fmt::format("the best alternative {} {:.1f} %, but {}", gain < 0 ? "costs" : "gains",
                        100 * std::abs(gain), refused);
  }
  return {std::nullopt, why.value_or("nothing else can be set that keeps the job running")};
}

void SteerPolicy::moved(Seconds now, const SteerMove& move) {
  Reversal& left = left_[setting_];
  left.when = now;
  ++left.times;
  setting_ = move.name;
  last_move_ = now;
  ++moves_;
  if (move.restarts) ++restarts_;
}

namespace {

// What is called a change: a fault-free machine drifts by less.
constexpr double step_moved = 0.004, power_moved = 0.015, clock_moved = 0.01, heat_moved = 2.0;

std::string ceiling_words(double ceiling, const spec::Job& job) {
  return fmt::format("{:.0f} MHz", ceiling * (*job.cluster.gpu.max_clock / unit::MHz));
}

bool can_run(const spec::Job& job) {
  return !spec::has_errors(spec::diagnose(job)) && workload::build_work_graph(job).memory.fits();
}

SteerMove clock_move(const spec::Job& base, SteerSetting setting, double ceiling) {
  setting.ceiling = ceiling;
  return {.setting = setting,
          .what = ceiling < 1 ? "limit all clocks to " + ceiling_words(ceiling, base)
                              : "lift the clock limit"};
}

/// A spare in place of a node, as long as there is one.
std::optional<SteerMove> swap_move(const SteerSetting& present, int64_t node, int spares) {
  SteerSetting setting = present;
  std::vector<int64_t>& gone = setting.swapped;
  const auto at = std::lower_bound(gone.begin(), gone.end(), node);
  const bool is_gone = at != gone.end() && *at == node;
  if (is_gone || static_cast<int>(gone.size()) >= spares) return std::nullopt;
  gone.insert(at, node);
  return SteerMove{.setting = setting,
                   .what = fmt::format("put a spare in place of node {}", node),
                   .restarts = true};
}

}  // namespace

std::string words_of(const SteerSetting& setting, const spec::Job& base) {
  std::string words =
      setting.ceiling < 1 ? "clocks up to " + ceiling_words(setting.ceiling, base) : "clocks free";
  for (const int64_t node : setting.swapped)
    words += fmt::format(", spare for node {}", node);
  return words;
}

spec::Job job_with(const spec::Job& base, const SteerSetting& setting) {
  spec::Job job = base;
  const auto gpus = as_size(base.cluster.num_gpus());
  auto& room = job.environment;
  if (setting.ceiling < 1) {
    const Hertz ceiling = setting.ceiling * *base.cluster.gpu.max_clock;
    room.device_clock_limits.resize(gpus, *base.cluster.gpu.max_clock);
    for (Hertz& limit : room.device_clock_limits)
      limit = std::min(limit, ceiling);
  }
  std::erase_if(room.faults, [&](const spec::Fault& fault) {
    const int64_t node =
        fault.gpu ? *fault.gpu / base.cluster.gpus_per_node : fault.node.value_or(-1);
    return holds(setting.swapped, node);
  });
  return job;
}

Watts SteerReadings::power() const {
  return std::accumulate(power_w.begin(), power_w.end(), 0.0) * unit::W;
}

std::size_t SteerReadings::slowest() const {
  return as_size(std::ranges::min_element(clock) - clock.begin());
}

std::size_t SteerReadings::hottest() const {
  return as_size(std::ranges::max_element(die_c) - die_c.begin());
}

std::optional<SteerReadings> readings_of(const run::Run& run, const spec::Job& job,
                                         std::optional<run::Extent> window) {
  const auto mean_of = [&](const char* signal, int32_t device) -> std::optional<double> {
    const run::Series* series = run::find_series(run, signal, device);
    if (series == nullptr) return std::nullopt;
    const run::SeriesStatistics all =
        window ? run::statistics(*series, window->begin, window->end) : run::statistics(*series);
    if (all.count == 0) return std::nullopt;
    return all.time_weighted_mean;
  };
  std::vector<run::StepRecord> steps = run.steps;
  if (window)
    std::erase_if(steps, [&](const run::StepRecord& step) {
      return step.end <= window->begin || step.end > window->end;
    });
  if (steps.empty()) return std::nullopt;
  SteerReadings seen;
  seen.step_time = (steps.back().end - steps.front().begin) / as_real(steps.size());
  const double max_mhz = *job.cluster.gpu.max_clock / unit::MHz;
  for (int32_t d = 0; d < job.cluster.num_gpus(); ++d) {
    const auto clock = mean_of("sm_clock_mhz", d);
    auto die = mean_of("die_c", d);
    if (!die) die = mean_of("junction_c", d);
    auto power = mean_of("power_w", d);
    if (!power) power = mean_of("power_instant_w", d);
    if (!power) power = mean_of("power_average_w", d);
    if (!clock || !power || !die) return std::nullopt;
    seen.clock.push_back(*clock / max_mhz);
    seen.power_w.push_back(*power);
    seen.die_c.push_back(*die);
    const run::Extent extent = window.value_or(run::Extent{steps.front().begin, steps.back().end});
    double braked = 0, hot = 0;
    for (const run::ThrottleReason& reason : run::throttle_reasons) {
      const double share =
          run::throttled_share(run, d, reason, extent.begin, extent.end).value_or(0);
      const bool by_heat = reason.of == run::ThrottleReason::Of::heat;
      if (by_heat) hot = std::max(hot, share);
      if (reason.by_hardware && !by_heat) braked = std::max(braked, share);
    }
    seen.braked.push_back(braked > hot ? braked
                                       : 0);  // the bit of any slowdown is set by heat, too
    seen.hot.push_back(hot);
  }
  return seen;
}

std::string change_words(const SteerReadings& before, const SteerReadings& now) {
  std::vector<std::string> words;
  const auto change = [&](const char* what, double ratio, double least) {
    if (std::abs(ratio - 1) > least)
      words.push_back(fmt::format("{} {:.1f} % {}", what, 100 * std::abs(ratio - 1),
                                  ratio > 1 ? "up" : "down"));
  };
  change("step time", now.step_time / before.step_time, step_moved);
  change("power", now.power() / before.power(), power_moved);
  const std::size_t slowest = now.slowest(), hottest = now.hottest();
  if (std::abs(now.clock[slowest] - before.clock[before.slowest()]) > clock_moved)
    words.push_back(fmt::format("GPU {} is the slowest, at {:.0f} % of its clock", slowest,
                                100 * now.clock[slowest]));
  if (std::abs(now.die_c[hottest] - before.die_c[hottest]) > heat_moved)
    words.push_back(fmt::format("GPU {} at {:.0f} °C", hottest, now.die_c[hottest]));
  return fmt::format("{}", fmt::join(words, "; "));
}

std::vector<SteerMove> possible_moves(const spec::Job& base, const SteerSetting& initial,
                                      const SteerSetting& present, int64_t node,
                                      const MoveOptions& options) {
  std::vector<SteerMove> all = {clock_move(base, present, initial.ceiling),
                                clock_move(base, present, 1)};
  // The slowest may also run slower than it does: the objective decides how far.
  for (int rung = 39; rung > 16; --rung)
    all.push_back(clock_move(base, present, rung * 0.025));
  SteerSetting freed = present;  // what a disturbance limited may not be needed any more
  freed.ceiling = initial.ceiling;
  for (const SteerSetting& from : {present, freed}) {
    if (!options.may_restart) continue;
    const std::optional<SteerMove> swap = swap_move(from, node, options.spares);
    if (!swap) continue;
    all.push_back(*swap);
    if (from != present) all.back().what += ", with clocks as in the beginning";
  }
  std::vector<SteerMove> legal;
  for (SteerMove& move : all) {
    const bool known = holds(legal, move.setting, &SteerMove::setting);
    if (known || move.setting == present) continue;
    if (move.restarts && !can_run(job_with(base, move.setting))) continue;
    move.name = words_of(move.setting, base);
    legal.push_back(std::move(move));
  }
  return legal;
}

Watts power_in(metrics::EnergyScope scope, const sim::TransientSimulation& now,
               std::span<const double> device_w) {
  const spec::Cluster& cluster = now.job().cluster;
  double devices = 0, nodes = 0;
  for (int64_t n = 0; n < cluster.num_nodes; ++n) {
    double of_node = 0;
    for (int64_t g = 0; g < cluster.gpus_per_node; ++g)
      of_node += device_w[as_size(n * cluster.gpus_per_node + g)];
    devices += of_node;
    nodes += now.node_power(n, of_node * unit::W) / unit::W;
  }
  return search::energy_in(scope, now.job(), devices, nodes / as_real(cluster.num_nodes), 1) *
         unit::W;
}

namespace {

/// A settled machine repeats itself: two of its steps say all. Nothing where heat ends the job.
Forecast settled_forecast(const sim::TransientSimulation& now, const spec::Job& job,
                          metrics::EnergyScope scope) {
  sim::TransientSimulation ahead(now);
  ahead.change(job);
  ahead.solve_steady_state();
  Seconds length = 2 * unit::s;
  run::Run run = ahead.advance(length);
  for (int tries = 0; tries < 12 && run.steps.size() < 2 && !run.shutdown; ++tries) {
    run = ahead.advance(length);
    length = 2 * length;
  }
  const std::optional<SteerReadings> seen = readings_of(run, job);
  if (!seen || run.shutdown) return {};
  return {run.steps.back().end - run.steps.back().begin, power_in(scope, ahead, seen->power_w)};
}

}  // namespace

Forecast foresee(const sim::TransientSimulation& now, const spec::Job& job,
                 metrics::EnergyScope scope) {
  spec::Job on = job, off = job;
  std::erase_if(off.environment.faults, [](const spec::Fault& f) { return f.period.has_value(); });
  if (off.environment.faults.size() == job.environment.faults.size())
    return settled_forecast(now, job, scope);
  for (spec::Fault& fault : on.environment.faults)
    fault.period.reset();
  const Forecast a = settled_forecast(now, on, scope), b = settled_forecast(now, off, scope);
  if (!a.runs() || !b.runs()) return {};
  return {2 / (1 / a.step_time + 1 / b.step_time), 0.5 * (a.power + b.power)};
}

double worth(const Forecast& leave, const Forecast& then, const MoveCost& cost, Seconds horizon) {
  if (!then.runs()) return std::numeric_limits<double>::infinity();
  if (!leave.runs()) return 0;
  const Seconds trained = horizon / leave.step_time * then.step_time;
  const double time = (cost.time + trained) / horizon;
  const double energy = (cost.time * cost.power + trained * then.power) / (horizon * leave.power);
  return time * energy;
}

}  // namespace triplepoint::advise
