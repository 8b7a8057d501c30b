// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"
#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/advise/gap_model.h"
#include "triplepoint/answers/run_objects.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

using metrics::Metrics;
using run::Bottleneck;

constexpr double least_clock_loss = 0.02;  // of the predicted clock

const char* source_of(bool against_recording) {
  return against_recording ? "those of the other recording" : "what was predicted";
}

std::string without_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// All exposed waits of the others for one that is last into nearly all collectives; nothing of
/// any other. What is blamed on it is less where collectives run beside kernels: hidden waits for
/// one make the next ones exposed.
Seconds all_waits_for(const Bottleneck& late, const run::Run& run) {
  constexpr double nearly_all = 0.9;
  const run::Evidence& last = late.evidence.front();
  if (late.of != Bottleneck::Of::rank || late.who.size() != 1 || !run.timeline.instances.empty() ||
      last.kind != run::Evidence::Kind::late_arrivals || last.value < nearly_all * last.peers)
    return {};
  metrics::CollectiveMatch match =
      metrics::match_collectives(run.timeline, metrics::job_ranks_of(run));
  const metrics::LateRanks all = metrics::find_late_ranks(run.timeline, match);
  for (auto start = all.starts.rbegin(); start != all.starts.rend(); ++start)
    if (start->is_first)
      match.collectives.erase(match.collectives.begin() +
                              static_cast<std::ptrdiff_t>(start->collective));
  return sum_of(metrics::exposed_waits(run.timeline, match),
                [](const metrics::ExposedWaits& rank) { return as_real(rank.late_peers); }) *
         unit::ns;
}

/// What it costs a step: as it says, or what each other rank waited for it.
Seconds cost_of(const Bottleneck& bottleneck, const run::Run& run) {
  if (bottleneck.cost) return *bottleneck.cost;
  if (!bottleneck.waits) return {};
  const auto steps = as_real(std::max<size_t>(1, run::detailed_steps(run).size()));
  return std::max(*bottleneck.waits, all_waits_for(bottleneck, run)) /
         (steps * std::max<double>(1, run.timeline.num_ranks - 1));
}

GapPart bottleneck_part(const Bottleneck& bottleneck, const run::Run& run, Seconds cost) {
  const bool of_ranks = bottleneck.of == Bottleneck::Of::rank;
  return {
      .cause = std::string(answers::name_of(bottleneck.cause)),
      .what = without_stop(metrics::bottleneck_sentence(bottleneck, {}, run::device_numbers(run))),
      .seen_in = of_ranks ? "traces" : "recording",
      .cost = cost,
      .at_most = bottleneck.at_most,
      .advice = without_stop(metrics::bottleneck_advice(bottleneck))};
}

bool is_of_clock(const Bottleneck& one) {
  return one.of != Bottleneck::Of::rank &&
         metrics::find(one.evidence, run::Evidence::Kind::clock) != nullptr;
}

struct SlowOnes {
  Bottleneck what;
  Seconds cost;
  bool were_slow = false;  // some of them, in the other run: `cost` is what is beyond that
};

/// Leaves what the same devices, or ranks, cost the other run. Those that are slow in both are not
/// named beside others.
void subtract_other_run(SlowOnes& now, const OtherRun& other) {
  std::vector<int32_t> others = now.what.who;
  for (const Bottleneck& before : other.metrics.bottlenecks) {
    if (before.of != now.what.of || is_of_clock(before) != is_of_clock(now.what)) continue;
    const auto was_slow = [&](int32_t who) { return std::ranges::count(before.who, who) > 0; };
    if (std::ranges::none_of(now.what.who, was_slow)) continue;
    now.were_slow = true;
    now.cost = now.cost - cost_of(before, other.run);
    std::erase_if(others, was_slow);
  }
  if (!others.empty()) now.what.who = std::move(others);
}

/// Those whose clock is slow, or all others, that cost something; largest first.
std::vector<SlowOnes> slow_ones(const run::Run& run, const Metrics& seen,
                                const std::optional<OtherRun>& other, bool of_clocks) {
  std::vector<SlowOnes> all;
  for (const Bottleneck& one : seen.bottlenecks) {
    if (is_of_clock(one) != of_clocks) continue;
    SlowOnes found{one, cost_of(one, run)};
    if (other) subtract_other_run(found, *other);
    if (found.cost > Seconds()) all.push_back(std::move(found));
  }
  std::ranges::stable_sort(all, std::greater(), &SlowOnes::cost);
  return all;
}

bool is_of_power(run::Cause cause) {
  using run::Cause;
  return cause == Cause::power_limit || cause == Cause::power_cap || cause == Cause::power_brake ||
         cause == Cause::power_delivery || cause == Cause::board;
}

/// By how much longer a device takes than its peers.
double slowdown_of(const Bottleneck& one) {
  const run::Evidence* const clock = metrics::find(one.evidence, run::Evidence::Kind::clock);
  return clock->value > 0 ? clock->peers / clock->value - 1 : 0;
}

/// Where all of several cost the same, which is then a bound, clocks tell who costs how much of it.
void share_bound(std::vector<SlowOnes>& all) {
  constexpr double alike = 0.01;
  if (all.size() < 2 || all.front().cost > (1 + alike) * all.back().cost) return;
  const auto slowdown = [](const SlowOnes& one) { return slowdown_of(one.what); };
  std::ranges::stable_sort(all, std::greater(), slowdown);
  const double most = slowdown(all.front());
  for (SlowOnes& one : all)
    if (most > 0) one.cost = slowdown(one) / most * one.cost;
}

/// Of devices in lockstep each costs what it is slower than the next, once the slower ones are
/// mended.
ClockCause slow_devices(const run::Run& run, const Metrics& seen,
                        const std::optional<OtherRun>& other) {
  ClockCause cause;
  auto all = slow_ones(run, seen, other, true);
  share_bound(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [one, cost, were_slow] = all[i];
    const Seconds next = i + 1 < all.size() ? all[i + 1].cost : Seconds();
    if (cost > next) cause.parts.push_back(bottleneck_part(one, run, cost - next));
    if (cost > next && i > 0 && !cause.parts.back().advice.empty()) {
      std::string& advice = cause.parts.back().advice;
      advice.front() = lower_case(advice.front());
      advice.insert(0, "Once the slower ones are mended, ");
    }
    // Simulation tells what all of a slow clock costs, and not what is more than in the other run.
    for (size_t d = 0; d < run.devices.size() && !were_slow; ++d) {
      const run::Device& device = run.devices[d];
      const int32_t own = one.of == Bottleneck::Of::node ? device.node : device.index;
      if (std::ranges::count(one.who, own) > 0) cause.held.push_back({d, is_of_power(one.cause)});
    }
  }
  return cause;
}

Seconds computing_of(const Metrics& plain) {
  return plain.parts ? plain.parts->computing : plain.step_time.value_or(Seconds());
}

/// All GPUs but the slow ones run below the predicted clock: a limit, heat or a lock of all.
std::optional<ClockCause> clocks_of_all(const Metrics& seen, const Metrics& plain,
                                        const std::vector<size_t>& others, bool against_recording) {
  if (others.empty() || !plain.sm_clock_mean_mhz) return std::nullopt;
  std::vector<double> clocks =
      mapped(others, [&](const size_t d) { return seen.sm_clock_per_gpu_mhz[d]; });
  const double middle = median(std::move(clocks)), usual = *plain.sm_clock_mean_mhz;
  if (middle > (1 - least_clock_loss) * usual) return std::nullopt;
  std::string why;
  double longest = 0.05;  // of time
  for (const auto& [reason, share] : seen.throttle)
    if (share > longest) longest = share, why = reason;
  std::string what = fmt::format("GPUs run at {:.0f} MHz (median), {} are {:.0f} MHz", middle,
                                 whose(against_recording), usual);
  const bool of_power = run::is_power_reason(why);
  std::ranges::replace(why, '_', ' ');
  if (!why.empty()) what += fmt::format(" ({}, {} of the time)", why, percent(longest));
  GapPart part{
      .cause = "clocks",
      .what = std::move(what),
      .seen_in = "recording",
      .cost = (usual / middle - 1) * computing_of(plain),
      .at_most = true,
      .advice = fmt::format("compare power limit, inlet temperature and clock locks with {}",
                            source_of(against_recording))};
  ClockCause cause{{std::move(part)}, {}};
  for (const size_t d : others)
    cause.held.push_back({d, of_power});
  return cause;
}

/// By how much a die is, where that is enough to lower its clock.
std::optional<double> hotter_than_usual(const Metrics& seen, const Metrics& plain, size_t gpu) {
  constexpr double enough_k = 5;
  const std::vector<double>&dies = seen.temperature_per_gpu_c, &usual = plain.temperature_per_gpu_c;
  if (gpu >= dies.size() || gpu >= usual.size() || !(dies[gpu] - usual[gpu] > enough_k))
    return std::nullopt;
  return dies[gpu] - usual[gpu];
}

/// Whether at most one other of its node is hotter than usual, which air or coolant would make all.
bool is_alone_hot(const run::Run& run, const Metrics& seen, const Metrics& plain, size_t gpu) {
  int64_t others = 0, hot = 0;
  for (size_t d = 0; d < run.devices.size(); ++d) {
    if (d == gpu || run.devices[d].node != run.devices[gpu].node) continue;
    ++others;
    if (hotter_than_usual(seen, plain, d)) ++hot;
  }
  return others > 1 && hot <= 1;
}

/// One GPU needs more power than the middle one for the same clock, by more than boards differ.
std::optional<ClockCause> spread_of_boards(const run::Run& run, const Metrics& seen,
                                           const Metrics& plain, bool against_recording) {
  const std::vector<double>&clocks = seen.sm_clock_per_gpu_mhz, &usual = plain.sm_clock_per_gpu_mhz;
  const auto known = [](double clock) { return clock > 0; };
  if (clocks.size() < 4 || usual.size() < 4 || !std::ranges::all_of(clocks, known))
    return std::nullopt;
  const double middle = median(clocks), slowest_usual = std::ranges::min(usual) / median(usual);
  const auto slowest = std::ranges::min_element(clocks) - clocks.begin();
  const double clock = clocks[as_size(slowest)];
  if (!(clock < (slowest_usual - least_clock_loss) * middle)) return std::nullopt;
  const std::string name = run::device_number(run, as_size(slowest));
  GapPart part{
      .cause = "board",
      .what = fmt::format(
          "boards differ more than usual: GPU {} reaches {:.0f} MHz, the median GPU {:.0f} MHz",
          name, clock, middle),
      .seen_in = "recording",
      .cost = (slowest_usual * middle / clock - 1) * computing_of(plain),
      .at_most = true,
      .advice = "give hungry boards less work (triplepoint place), or exchange them"};
  if (const auto hotter = hotter_than_usual(seen, plain, as_size(slowest))) {
    part.cause = "heat";
    part.what = fmt::format(
        "GPU {} is {:.0f} K hotter than {} ({:.0f} °C) and reaches {:.0f} MHz, the median GPU "
        "{:.0f} MHz",
        name, *hotter, against_recording ? "in the other recording" : "predicted",
        seen.temperature_per_gpu_c[as_size(slowest)], clock, middle);
    part.advice = is_alone_hot(run, seen, plain, as_size(slowest))
                      ? "check its heat sink and paste: the other GPUs of its node are as cool as "
                        "they should be"
                      : fmt::format("compare inlet temperature, air and coolant with {}",
                                    source_of(against_recording));
  }
  return ClockCause{{std::move(part)}, {{as_size(slowest), true}}};
}

/// Power limits at which the job's devices have these clocks (MHz; 0: as they are), as far as a
/// lower limit does that. By bisection, all at once: a clock hardly depends on others' limits.
std::vector<Watts> limits_for(spec::Job job, const std::vector<double>& clocks) {
  constexpr int rounds = 9;
  constexpr double lowest = 0.1;  // of the limit
  std::vector<Watts>& limits = job.environment.device_power_limits;
  limits.resize(clocks.size(), job.power_limit());
  std::vector<Watts> high = limits, low = limits;
  for (Watts& limit : low)
    limit = lowest * limit;
  for (int round = 0; round < rounds; ++round) {
    for (size_t d = 0; d < clocks.size(); ++d)
      if (clocks[d] > 0) limits[d] = 0.5 * (low[d] + high[d]);
    const std::vector<double> now =
        metrics::measure(sim::simulate(job, {.timeline = false})).sm_clock_per_gpu_mhz;
    for (size_t d = 0; d < clocks.size() && d < now.size(); ++d)
      (now[d] > clocks[d] ? high : low)[d] = limits[d];
  }
  return limits;
}

/// Whether a late rank waited for a core meanwhile. The others may do so too: who waits in a
/// collective lets other programs run.
void name_core_wait(const run::Run& run, const Bottleneck& late, GapPart& part) {
  constexpr double most = 0.5;  // of its cost
  if (late.of != Bottleneck::Of::rank) return;
  const std::map<int32_t, Seconds>& waits = run.core_waits;
  Seconds own;
  for (const int32_t rank : late.who)
    if (const auto found = waits.find(rank); found != waits.end())
      own = std::max(own, found->second);
  if (own < most * part.cost) return;
  part = part_of_core_waits(
      fmt::format("{}; it waits {} of a step for a core", part.what, time_of(own)), part.cost);
}

/// Links and hosts of a job that are as slow as these are seen to be.
std::optional<JobChange> change_of(const Bottleneck& slow) {
  using Kind = run::Evidence::Kind;
  const run::Evidence& seen = slow.evidence.front();
  const bool is_host = seen.kind == Kind::host;
  const bool is_link = seen.kind == Kind::scale_up || seen.kind == Kind::scale_out;
  if (slow.of == Bottleneck::Of::rank || (!is_host && !is_link) || seen.peers <= 0 ||
      seen.value <= 0)
    return std::nullopt;
  return [slow, is_host](spec::Job& job) {
    for (const int32_t who : slow.who) {
      spec::Fault fault{.kind = is_host ? spec::FaultKind::host : spec::FaultKind::link,
                        .share = slow.evidence.front().value / slow.evidence.front().peers};
      (slow.of == Bottleneck::Of::node ? fault.node : fault.gpu) = who;
      job.environment.faults.push_back(fault);
    }
  };
}

}  // namespace

std::vector<OtherCause> causes_of_others(const run::Run& run, const Metrics& seen,
                                         const std::optional<OtherRun>& other) {
  std::vector<OtherCause> causes;
  for (const SlowOnes& one : slow_ones(run, seen, other, false)) {
    causes.push_back({bottleneck_part(one.what, run, one.cost), {}});
    if (!one.were_slow) causes.back().change = change_of(one.what);
    name_core_wait(run, one.what, causes.back().part);
  }
  return causes;
}

bool name_slow_devices(const run::Run& run, const metrics::StepPattern& pattern,
                       const std::vector<int32_t>& named, GapPart& part) {
  if (pattern.levels.empty() || run.series.empty()) return false;
  const auto slowest = std::ranges::max_element(pattern.levels, {}, &metrics::StepLevel::time);
  const Seconds shortest = std::ranges::min(pattern.levels, {}, &metrics::StepLevel::time).time;
  run::Run then;  // without spans, of which a trace may have millions
  then.manifest = run.manifest;
  then.devices = run.devices;
  then.series = run.series;
  then.numbers = run.numbers;
  then.manifest.origin = run::Origin::measured;  // a simulation tells of its last step alone
  const auto first = std::min(slowest->first, std::ssize(run.steps));
  const auto last = std::min(slowest->first + slowest->steps, std::ssize(run.steps));
  then.steps.assign(run.steps.begin() + first, run.steps.begin() + last);
  const auto all = slow_ones(then, metrics::measure(then), std::nullopt, true);
  const auto is_new = [&](const SlowOnes& one) {
    // Its clock has to be able to explain most of what those steps are longer.
    return one.cost > 0.5 * (slowest->time - shortest) &&
           std::ranges::none_of(run.devices, [&](const run::Device& device) {
             const bool of_node = one.what.of == Bottleneck::Of::node;
             return std::ranges::count(one.what.who, of_node ? device.node : device.index) > 0 &&
                    std::ranges::count(named, device.index) > 0;
           });
  };
  const auto found = std::ranges::find_if(all, is_new);
  if (found == all.end()) return false;
  const GapPart seen = bottleneck_part(found->what, then, found->cost);
  part.cause = seen.cause;
  part.seen_in = seen.seen_in;
  part.what = fmt::format("from {:.0f} to {:.0f} s: {}",
                          (then.steps.front().begin - run.steps.front().begin) / unit::s,
                          (then.steps.back().end - run.steps.front().begin) / unit::s, seen.what);
  part.advice = seen.advice;
  part.confirm.clear();
  return true;
}

bool is_of_clocks(const metrics::StepPattern& pattern, const run::Run& run, const Metrics& seen,
                  Seconds base) {
  if (pattern.kind != metrics::StepPattern::Kind::tails) return false;
  constexpr double lower = 0.9;
  const auto is_low = [&](size_t device) {
    const run::Series* const clock =
        run::find_series(run, "sm_clock_mhz", run.devices[device].index, false);
    if (clock == nullptr) return false;
    std::vector<double> in_long, in_others;
    for (const run::StepRecord& step : run.steps) {
      const auto all = run::statistics(*clock, step.begin, step.end);
      const bool is_long = step.end - step.begin > base + 0.5 * pattern.excess;
      if (all.count > 0) (is_long ? in_long : in_others).push_back(all.time_weighted_mean);
    }
    return !in_long.empty() && !in_others.empty() && mean(in_long) < lower * mean(in_others);
  };
  return std::ranges::any_of(slow_devices(run, seen, std::nullopt).held,
                             [&](const auto& held) { return is_low(held.device); });
}

std::vector<ClockCause> clock_causes(const run::Run& run, const Metrics& seen,
                                     const Metrics* predicted, bool against_recording,
                                     const std::optional<OtherRun>& other) {
  std::vector<ClockCause> causes;
  ClockCause slow = slow_devices(run, seen, other);
  std::vector<size_t> others;
  for (size_t d = 0; d < seen.sm_clock_per_gpu_mhz.size(); ++d)
    if (seen.sm_clock_per_gpu_mhz[d] > 0 &&
        std::ranges::find(slow.held, d, &ClockCause::Held::device) == slow.held.end())
      others.push_back(d);
  if (!slow.parts.empty()) causes.push_back(std::move(slow));
  if (predicted == nullptr) return causes;
  auto all = clocks_of_all(seen, *predicted, others, against_recording);
  // A tighter limit also spreads the clocks of boards.
  if (!all && causes.empty()) all = spread_of_boards(run, seen, *predicted, against_recording);
  if (all) causes.push_back(*std::move(all));
  return causes;
}

std::optional<JobChange> change_of(const ClockCause& cause, const run::Run& run,
                                   const Metrics& seen, const spec::Job& job) {
  const spec::Gpu& gpu = job.cluster.gpu;
  const auto gpus = as_size(job.cluster.num_gpus());
  if (!gpu.governor || !gpu.power || !gpu.max_clock || cause.held.empty()) return std::nullopt;
  std::vector<Hertz> locks(gpus, *gpu.max_clock);
  std::vector<double> clocks(gpus);
  for (const auto& [device, by_power] : cause.held) {
    const auto place = as_size(run.devices[device].index);
    if (place >= gpus) return std::nullopt;
    const double clock = seen.sm_clock_per_gpu_mhz[device];
    if (by_power)
      clocks[place] = clock;
    else  // a lock takes the clock step below; the nearest is meant
      locks[place] = std::clamp(clock * unit::MHz + 0.5 * gpu.governor->clock_step,
                                gpu.governor->min_clock, *gpu.max_clock);
  }
  const bool any = std::ranges::any_of(clocks, [](double clock) { return clock > 0; });
  std::vector<Watts> limits = any ? limits_for(job, clocks) : std::vector<Watts>();
  return [locks = std::move(locks), limits = std::move(limits)](spec::Job& changed) {
    spec::Environment& room = changed.environment;
    room.device_clock_limits.resize(locks.size(), *changed.cluster.gpu.max_clock);
    for (size_t d = 0; d < locks.size(); ++d)
      room.device_clock_limits[d] = std::min(room.device_clock_limits[d], locks[d]);
    if (limits.empty()) return;
    room.device_power_limits.resize(limits.size(), changed.power_limit());
    for (size_t d = 0; d < limits.size(); ++d)
      room.device_power_limits[d] = std::min(room.device_power_limits[d], limits[d]);
  };
}

}  // namespace triplepoint::advise
