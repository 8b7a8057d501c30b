// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_moves.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/run/run.h"

#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::advise {
namespace {

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// Why the best option is left, if its gain is below the least that a move must.
std::string too_little(double gain, double least) {
  constexpr double max_ratio_difference = 5e-4;
  if (gain > max_ratio_difference)
    return fmt::format("the best alternative gains {}, less than the {} that a move must",
                       percent_text(gain), percent_text(least));
  if (gain > -max_ratio_difference) return "the best alternative comes to the same";
  return fmt::format("the best alternative costs {}", percent_text(-gain));
}

}  // namespace

/// Why an option that gains is not taken; empty: it may be.
std::string SteerPolicy::refusal(Seconds now, const SteerOption& option) const {
  if (moves_ >= rules_.most_moves) return fmt::format("all {} moves are used", rules_.most_moves);
  if (option.restarts && restarts_ >= rules_.most_restarts)
    return fmt::format("all {} restarts are used", rules_.most_restarts);
  if (last_move_ && now - *last_move_ < rules_.dwell)
    return fmt::format("the last move was only {:.0f} s ago", (now - *last_move_) / unit::s);
  const auto left = left_.find(option.setting);
  if (left == left_.end()) return "";
  const Seconds wait = std::exp2(left->second.times) * rules_.dwell;
  if (now - left->second.when >= wait) return "";
  return fmt::format("it was left {:.0f} s ago and may come back after {:.0f} s",
                     (now - left->second.when) / unit::s, wait / unit::s);
}

SteerPolicy::Verdict SteerPolicy::choose(Seconds now, std::span<const SteerOption> options) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < options.size(); ++i)
    if (options[i].setting != setting_) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return options[a].ratio < options[b].ratio;
  });
  std::optional<std::string> why;  // the best of them is left
  for (const std::size_t i : order) {
    const double gain = 1 - options[i].ratio;
    const double least = options[i].restarts ? rules_.restart_margin : rules_.margin;
    const bool gains = gain >= least;  // not-a-number is no gain
    const std::string refused = gains ? refusal(now, options[i]) : too_little(gain, least);
    if (refused.empty()) return {i, ""};
    if (!why)
      why = gains ? fmt::format("{} would gain, but {}", percent_text(gain), refused) : refused;
  }
  return {std::nullopt, why.value_or("nothing else can be set")};
}

void SteerPolicy::moved(Seconds now, const SteerOption& option) {
  Reversal& left = left_[setting_];
  left.when = now;
  ++left.times;
  setting_ = option.setting;
  last_move_ = now;
  ++moves_;
  if (option.restarts) ++restarts_;
}

namespace {

// A ladder, so that equal settings are equal: a fortieth of the highest clock, about 50 MHz.
constexpr double rung = 0.025, lowest_cap = 0.5;
constexpr int64_t lowest_rung = 16, highest_rung = 40;

int64_t rung_of(double share) {
  return std::clamp<int64_t>(std::llround(share / rung), lowest_rung, highest_rung);
}

double on_ladder(double share) {
  return static_cast<double>(rung_of(share)) * rung;
}

double mhz_of(double ceiling, const spec::Job& job) {
  return ceiling * (*job.cluster.gpu.max_clock / unit::MHz);
}

std::string ceiling_words(double ceiling, const spec::Job& job) {
  return fmt::format("{:.0f} MHz", mhz_of(ceiling, job));
}

bool hits_node(const spec::Fault& fault, int64_t node, int64_t per_node) {
  return fault.node == node || (fault.gpu && *fault.gpu / per_node == node);
}

bool can_run(const spec::Job& job) {
  return !spec::has_errors(spec::diagnose(job)) && workload::build_work_graph(job).memory.fits();
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values)
    sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Mean of a series over the window, by how long each value held.
std::optional<double> mean_of(const run::Run& window, const char* signal, int32_t device) {
  const run::Series* series = run::find_series(window, signal, device);
  if (series == nullptr || series->values.empty()) return std::nullopt;
  return run::statistics(*series).time_weighted_mean;
}

Candidate clock_candidate(const spec::Job& base, SteerSetting setting, double ceiling) {
  setting.ceiling = on_ladder(ceiling);
  const std::string what = setting.ceiling < 1 ? fmt::format("limit all clocks to {}",
                                                             ceiling_words(setting.ceiling, base))
                                               : "lift the clock limit";
  return {MoveKind::clock_limit, setting, false, what};
}

Candidate cap_candidate(const spec::Job& base, SteerSetting setting, double cap) {
  setting.cap = std::clamp(cap, lowest_cap, 1.0);
  const std::string what =
      setting.cap < 1
          ? fmt::format("cap all GPUs at {:.0f} W", setting.cap * (base.power_limit() / unit::W))
          : "lift the power cap";
  return {MoveKind::power_cap, setting, false, what};
}

/// Layers of each stage as they are now.
std::vector<int64_t> stage_layers(const spec::Job& job) {
  if (!job.plan.layers_per_stage.empty()) return job.plan.layers_per_stage;
  const int64_t stages = job.plan.pipeline_parallel_size;
  return std::vector<int64_t>(static_cast<std::size_t>(stages), job.model.num_layers / stages);
}

/// Mean of the devices' values of each stage.
std::vector<double> by_stage(const spec::Job& job, const std::vector<double>& values) {
  const workload::RankGrid grid(job);
  std::vector<double> sum(static_cast<std::size_t>(job.plan.pipeline_parallel_size)),
      count(sum.size());
  for (int64_t rank = 0; rank < job.world_size(); ++rank) {
    const auto stage = static_cast<std::size_t>(grid.coordinates(rank).pipeline);
    const auto device = static_cast<std::size_t>(grid.device_of(rank));
    if (device >= values.size()) continue;
    sum[stage] += values[device];
    count[stage] += 1;
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = count[i] > 0 ? sum[i] / count[i] : 0;
  return sum;
}

/// One layer from the stage with the lowest clocks to the one with the highest.
std::optional<Candidate> layer_candidate(const spec::Job& base, const SteerSetting& present,
                                         const SteerReadings& seen) {
  const spec::Job job = job_with(base, present);
  if (job.plan.pipeline_parallel_size < 2 || job.plan.virtual_pipeline_size > 1)
    return std::nullopt;
  const std::vector<double> clocks = by_stage(job, seen.clock);
  const auto from = std::min_element(clocks.begin(), clocks.end()) - clocks.begin();
  const auto to = std::max_element(clocks.begin(), clocks.end()) - clocks.begin();
  Candidate candidate{MoveKind::layer_shift, present, true, ""};
  candidate.setting.layers_per_stage = stage_layers(job);
  auto& layers = candidate.setting.layers_per_stage;
  if (from == to || layers[static_cast<std::size_t>(from)] < 2) return std::nullopt;
  --layers[static_cast<std::size_t>(from)];
  ++layers[static_cast<std::size_t>(to)];
  candidate.what = fmt::format("move a layer from stage {} to stage {}", from, to);
  return candidate;
}

void add_restarts(std::vector<Candidate>& all, const spec::Job& base, const SteerSetting& present,
                  const SteerReadings& seen, const MoveOptions& options) {
  for (const double factor : {2.0, 0.5}) {
    Candidate candidate{MoveKind::microbatch, present, true, ""};
    const double size = factor * static_cast<double>(present.micro_batch_size);
    if (size < 1) continue;
    candidate.setting.micro_batch_size = static_cast<int64_t>(size);
    candidate.what = fmt::format("train with microbatch {}", candidate.setting.micro_batch_size);
    all.push_back(std::move(candidate));
  }
  if (auto candidate = layer_candidate(base, present, seen)) all.push_back(*std::move(candidate));
  const auto& gone = present.swapped;
  const bool is_gone = std::find(gone.begin(), gone.end(), seen.slowest_node) != gone.end();
  if (is_gone || static_cast<int>(gone.size()) >= options.spares) return;
  Candidate candidate{MoveKind::node_swap, present, true,
                      fmt::format("put a spare in place of node {}", seen.slowest_node)};
  candidate.setting.swapped.push_back(seen.slowest_node);
  std::sort(candidate.setting.swapped.begin(), candidate.setting.swapped.end());
  all.push_back(std::move(candidate));
}

}  // namespace

std::string_view name_of(MoveKind kind) {
  constexpr std::string_view names[] = {"leave",      "clock_limit", "power_cap",
                                        "microbatch", "layer_shift", "node_swap"};
  return names[static_cast<std::size_t>(kind)];
}

SteerSetting setting_of(const spec::Job& job) {
  SteerSetting setting;
  setting.micro_batch_size = job.plan.micro_batch_size;
  setting.layers_per_stage = job.plan.layers_per_stage;
  return setting;
}

std::string words_of(const SteerSetting& setting, const spec::Job& base) {
  std::string words =
      setting.ceiling < 1 ? "clocks up to " + ceiling_words(setting.ceiling, base) : "clocks free";
  if (setting.cap < 1)
    words += fmt::format(", caps {:.0f} W", setting.cap * (base.power_limit() / unit::W));
  words += fmt::format(", microbatch {}", setting.micro_batch_size);
  if (!setting.layers_per_stage.empty()) {
    words += ", layers";
    for (const int64_t layers : setting.layers_per_stage)
      words += fmt::format(" {}", layers);
  }
  for (const int64_t node : setting.swapped)
    words += fmt::format(", spare for node {}", node);
  return words;
}

spec::Job job_with(const spec::Job& base, const SteerSetting& setting) {
  spec::Job job = base;
  const auto gpus = static_cast<std::size_t>(base.cluster.num_gpus());
  auto& room = job.environment;
  if (setting.ceiling < 1) {
    const Hertz ceiling = setting.ceiling * *base.cluster.gpu.max_clock;
    room.device_clock_limits.resize(gpus, *base.cluster.gpu.max_clock);
    for (Hertz& limit : room.device_clock_limits)
      limit = std::min(limit, ceiling);
  }
  if (setting.cap < 1) {
    const Watts cap = setting.cap * base.power_limit();
    room.device_power_limits.resize(gpus, base.power_limit());
    for (Watts& limit : room.device_power_limits)
      limit = std::min(limit, cap);
  }
  job.plan.micro_batch_size = setting.micro_batch_size;
  job.plan.layers_per_stage = setting.layers_per_stage;
  for (const int64_t node : setting.swapped)
    std::erase_if(room.faults, [&](const spec::Fault& fault) {
      return hits_node(fault, node, base.cluster.gpus_per_node);
    });
  return job;
}

std::optional<SteerReadings> readings_of(const run::Run& window, const spec::Job& job) {
  if (window.steps.empty()) return std::nullopt;
  SteerReadings seen;
  seen.step_time = (window.steps.back().end - window.steps.front().begin) /
                   static_cast<double>(window.steps.size());
  const double max_mhz = *job.cluster.gpu.max_clock / unit::MHz;
  double watts = 0;
  std::vector<double> node_clock(static_cast<std::size_t>(job.cluster.num_nodes), 1);
  for (int32_t d = 0; d < job.cluster.num_gpus(); ++d) {
    const auto clock = mean_of(window, "sm_clock_mhz", d);
    auto power = mean_of(window, "power_w", d);
    if (!power) power = mean_of(window, "power_instant_w", d);
    if (!power) power = mean_of(window, "power_average_w", d);
    const auto die = mean_of(window, "die_c", d);
    if (!clock || !power || !die) return std::nullopt;
    seen.clock.push_back(*clock / max_mhz);
    seen.power_w.push_back(*power);
    seen.die_c.push_back(*die);
    watts += *power;
    auto& node = node_clock[static_cast<std::size_t>(d / job.cluster.gpus_per_node)];
    node = std::min(node, seen.clock.back());
  }
  seen.power = watts * unit::W;
  seen.mean_clock = mean_of(seen.clock);
  seen.lowest_clock = *std::min_element(seen.clock.begin(), seen.clock.end());
  seen.slowest_node = std::min_element(node_clock.begin(), node_clock.end()) - node_clock.begin();
  seen.hottest_device = std::max_element(seen.die_c.begin(), seen.die_c.end()) - seen.die_c.begin();
  return seen;
}

std::vector<Candidate> candidates(const spec::Job& base, const SteerSetting& initial,
                                  const SteerSetting& present, const SteerReadings& seen,
                                  const MoveOptions& options) {
  std::vector<Candidate> all;
  // Who sets the pace may also run slower than it does: the objective decides how far.
  all.push_back(clock_candidate(base, present, initial.ceiling));
  for (int64_t step = highest_rung; step > lowest_rung; --step)
    all.push_back(clock_candidate(base, present, static_cast<double>(step) * rung));
  for (const double cap : {initial.cap, present.cap - 0.1, present.cap + 0.1})
    all.push_back(cap_candidate(base, present, cap));
  if (options.may_restart) {
    add_restarts(all, base, present, seen, options);
    // What a disturbance limited may not be needed any more.
    SteerSetting freed = present;
    freed.ceiling = initial.ceiling;
    freed.cap = initial.cap;
    const std::size_t first = all.size();
    if (freed != present) add_restarts(all, base, freed, seen, options);
    for (std::size_t i = first; i < all.size(); ++i)
      all[i].what += ", with limits as in the beginning";
  }
  std::vector<Candidate> kept;
  for (Candidate& candidate : all) {
    const bool known = std::any_of(kept.begin(), kept.end(), [&](const Candidate& other) {
      return other.setting == candidate.setting;
    });
    if (known || candidate.setting == present) continue;
    if (candidate.restarts && !can_run(job_with(base, candidate.setting))) continue;
    kept.push_back(std::move(candidate));
  }
  return kept;
}

std::vector<SteerSetting> clock_ladder(const SteerSetting& setting) {
  std::vector<SteerSetting> all;
  for (int64_t step = rung_of(setting.ceiling) - 1; step > lowest_rung; --step) {
    all.push_back(setting);
    all.back().ceiling = static_cast<double>(step) * rung;
  }
  return all;
}

namespace {

Celsius hottest_of(const SteerReadings& seen) {
  return Celsius(*std::max_element(seen.die_c.begin(), seen.die_c.end()));
}

/// A settled machine repeats itself: two of its steps say all. Nothing where heat ends the job.
Forecast settled_forecast(const sim::TransientSimulation& now, const spec::Job& job) {
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
  if (!seen || run.steps.empty() || run.shutdown) return {};
  const Seconds step_time = run.steps.back().end - run.steps.back().begin;
  return {step_time, seen->power, hottest_of(*seen)};
}

}  // namespace

Forecast foresee(const sim::TransientSimulation& now, const spec::Job& job) {
  spec::Job on = job, off = job;
  std::erase_if(off.environment.faults, [](const spec::Fault& f) { return f.period.has_value(); });
  if (off.environment.faults.size() == job.environment.faults.size())
    return settled_forecast(now, job);
  for (spec::Fault& fault : on.environment.faults)
    fault.period.reset();
  const Forecast a = settled_forecast(now, on), b = settled_forecast(now, off);
  if (!(a.step_time > Seconds() && b.step_time > Seconds())) return {};
  return {2 / (1 / a.step_time + 1 / b.step_time), 0.5 * (a.power + b.power),
          std::max(a.hottest, b.hottest)};
}

double worth(const Forecast& leave, const Forecast& then, const MoveCost& cost, Seconds horizon,
             search::Goal goal) {
  const double work = horizon / leave.step_time;
  const Seconds trained = work * then.step_time;
  const double time = (cost.time + trained) / horizon;
  const double energy = (cost.time * cost.power + trained * then.power) / (horizon * leave.power);
  if (goal == search::Goal::throughput) return time;
  if (goal == search::Goal::energy) return energy;
  return time * energy;
}

}  // namespace triplepoint::advise
