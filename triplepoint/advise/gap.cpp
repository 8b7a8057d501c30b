// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/gap.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/run_objects.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/trace/gap_calls.h"

namespace triplepoint::advise {
namespace {

using metrics::Metrics;
using metrics::StepParts;
using metrics::StepPattern;
using run::Bottleneck;

constexpr double least_part = 0.01;        // of the step; less is left unexplained
constexpr double least_clock_loss = 0.02;  // of the predicted clock
constexpr double least_left = 0.02;        // of the step, for which settings are tried

std::string without_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::string time_of(Seconds time) {
  return abs(time) < 0.1 * unit::s ? significant(time / unit::ms) + " ms"
                                   : significant(time / unit::s) + " s";
}

namespace {

/// "once", "3 times".
std::string times(int64_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

// ---- what steps show

struct PatternWords {
  std::string cause, what, advice, confirm;
};

PatternWords words_of_levels(const StepPattern& pattern) {
  std::string levels;
  for (const metrics::StepLevel& level : pattern.levels)
    levels += fmt::format("{}{} from {:.0f} s on", levels.empty() ? "" : ", ", time_of(level.time),
                          level.begin / unit::s);
  if (pattern.kind == StepPattern::Kind::spell)
    return {
        "spell", "steps were slower for a while and recovered without a pause (" + levels + ")",
        "look at what else used the network, the storage or the nodes then",
        "a shared resource: NIC counters, storage latency, other jobs' hours; no clock changes"};
  return {"slowdown",
          "steps get slower in phases and stay so (" + levels +
              "): a GPU that gets too hot does that, and so does a network or storage that gets "
              "worse",
          "record clocks and temperatures (triplepoint record) to tell which; if one GPU "
          "throttles, take it out, as the others wait for it",
          "one GPU: die at its target temperature, software or hardware thermal slowdown, clock "
          "down when the second phase begins; the others cool at full clock"};
}

PatternWords words_of(const StepPattern& pattern, Seconds base) {
  using Kind = StepPattern::Kind;
  const std::string each = time_of(pattern.excess);
  switch (pattern.kind) {
    case Kind::start:
      return {"start", fmt::format("the first {} steps take {} longer each", pattern.count, each),
              "nothing, if the training is long: compilation, allocation and connections", ""};
    case Kind::drift:
      return {"warm_up",
              fmt::format("steps get {} slower with a time constant of {:.0f} s{}",
                          percent(pattern.amplitude), pattern.time_constant / unit::s,
                          pattern.after_pauses ? ", and again after pauses" : ""),
              "record clocks and temperatures (triplepoint record); if clocks fall as dies warm, "
              "cool better or lower the power limit a little",
              "dies warm with that time constant, power at its limit, clocks fall as dies warm"};
    case Kind::slowdown:
    case Kind::spell:
      return words_of_levels(pattern);
    case Kind::periodic:
      if (pattern.is_pause || pattern.excess > base)
        return {"checkpoint",
                fmt::format("every {} steps {} more pass, {} times (checkpoint or evaluation)",
                            pattern.period, each, pattern.count),
                "save asynchronously, less often, or to faster storage", "writes at that time"};
      return {"garbage_collection",
              fmt::format("every {} steps one takes {} longer, {} times (garbage collection, "
                          "logging, or a data shard)",
                          pattern.period, each, pattern.count),
              "collect garbage on all ranks at the same step (--manual-gc), log less often",
              "idle GPUs, one core busy in Python at that time"};
    case Kind::tails:
      return {"tails", fmt::format("{} single steps take {} longer each", pattern.count, each),
              "trace such a step: data loader, allocator retries, network",
              "which GPU is idle then, storage and NIC counters"};
    case Kind::between:
      return {"between_steps", fmt::format("{} pass between any two steps", each),
              "look at what the loop does there: data loading, logging, a synchronization",
              "idle GPUs, a busy core"};
    case Kind::pauses:
      return {"pauses",
              fmt::format("the training stood still {}, {} each", times(pattern.count), each),
              "look for restarts, evaluation and failures at these times", "idle GPUs"};
  }
  return {};
}

GapPart part_of(const StepPattern& pattern, Seconds base) {
  PatternWords words = words_of(pattern, base);
  return {.cause = std::move(words.cause),
          .what = std::move(words.what),
          .seen_in = "steps",
          .cost = pattern.cost,
          .probability = pattern.probability,
          .advice = std::move(words.advice),
          .confirm = std::move(words.confirm)};
}

bool is_inside(const StepPattern& pattern) {
  using Kind = StepPattern::Kind;
  return pattern.kind == Kind::drift || pattern.kind == Kind::slowdown ||
         pattern.kind == Kind::spell;
}

// ---- what devices and ranks show

int64_t ranks_waiting(const run::Run& run) {
  return std::max<int64_t>(1, run.timeline.num_ranks - 1);
}

/// What it costs a step: as it says, or what each other rank waited for it.
Seconds cost_of(const Bottleneck& bottleneck, const run::Run& run) {
  if (bottleneck.cost) return *bottleneck.cost;
  if (!bottleneck.waits) return {};
  const auto steps = static_cast<double>(std::max<size_t>(1, run::detailed_steps(run).size()));
  return *bottleneck.waits / (steps * static_cast<double>(ranks_waiting(run)));
}

GapPart part_of(const Bottleneck& bottleneck, Seconds cost) {
  const bool of_ranks = bottleneck.of == Bottleneck::Of::rank;
  return {.cause = std::string(answers::name_of(bottleneck.cause)),
          .what = without_stop(metrics::bottleneck_sentence(bottleneck, {})),
          .seen_in = of_ranks ? "traces" : "recording",
          .cost = cost,
          .at_most = bottleneck.at_most,
          .advice = without_stop(metrics::bottleneck_advice(bottleneck))};
}

/// Largest first; each as what is gained if it is mended before the next.
std::vector<GapPart> parts_of_bottlenecks(const run::Run& run, const Metrics& metrics) {
  std::vector<std::pair<Seconds, const Bottleneck*>> all;
  for (const Bottleneck& bottleneck : metrics.bottlenecks)
    if (const Seconds cost = cost_of(bottleneck, run); cost > Seconds())
      all.emplace_back(cost, &bottleneck);
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<GapPart> parts;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto same_kind = [&](size_t j) {
      return j < all.size() && all[i].second->at_most && all[j].second->at_most;
    };
    const Seconds next = same_kind(i + 1) ? all[i + 1].first : Seconds();
    if (all[i].first > next) parts.push_back(part_of(*all[i].second, all[i].first - next));
  }
  return parts;
}

// ---- against a prediction

/// All GPUs run below the predicted clock: what a limit, heat or a lock of all of them costs.
std::optional<GapPart> clocks_of_all(const Metrics& seen, const run::Run& predicted,
                                     const Metrics& plain) {
  std::vector<double> own;
  for (const double clock : seen.sm_clock_per_gpu_mhz)
    if (clock > 0) own.push_back(clock);
  if (own.empty() || !plain.sm_clock_mean_mhz || !plain.step_time) return std::nullopt;
  const double ratio = median(own) / *plain.sm_clock_mean_mhz;
  if (ratio > 1 - least_clock_loss) return std::nullopt;
  const Seconds computing = plain.parts ? plain.parts->computing : *plain.step_time;
  std::string why;
  double longest = 0.05;  // of time
  for (const auto& [reason, share] : seen.throttle)
    if (share > longest) longest = share, why = reason;
  std::string what = fmt::format("all GPUs run at {:.0f} MHz, predicted are {:.0f} MHz",
                                 median(own), *plain.sm_clock_mean_mhz);
  if (!why.empty()) what += fmt::format(" ({}, {} of the time)", why, percent(longest));
  const double still = predicted.manifest.job
                           ? predicted.manifest.job->cluster.gpu.kernels.clock_insensitive_share
                           : 0;
  return GapPart{.cause = "clocks",
                 .what = std::move(what),
                 .seen_in = "recording",
                 .cost = (1 / ratio - 1) * (1 - still) * computing,
                 .at_most = true,
                 .advice =
                     "compare power limit, inlet temperature and clock locks with what was "
                     "predicted (nvidia-smi -q -d POWER,CLOCK)"};
}

/// One GPU needs more power than the middle one for the same clock, by more than boards differ.
std::optional<GapPart> spread_of_boards(const Metrics& seen, const Metrics& plain) {
  const auto slowest_over_middle = [](const Metrics& metrics) -> std::optional<double> {
    const std::vector<double>& clocks = metrics.sm_clock_per_gpu_mhz;
    if (clocks.size() < 4 || !(median(clocks) > 0)) return std::nullopt;
    return *std::ranges::min_element(clocks) / median(clocks);
  };
  const auto own = slowest_over_middle(seen), usual = slowest_over_middle(plain);
  if (!own || !usual || *own > *usual - least_clock_loss || !plain.step_time) return std::nullopt;
  const std::vector<double>& clocks = seen.sm_clock_per_gpu_mhz;
  const auto slowest = std::ranges::min_element(clocks) - clocks.begin();
  return GapPart{
      .cause = "board",
      .what = fmt::format(
          "boards differ more than usual: GPU {} reaches {:.0f} MHz, the middle one {:.0f} MHz",
          slowest, clocks[static_cast<size_t>(slowest)], median(clocks)),
      .seen_in = "recording",
      .cost = (*usual / *own - 1) * (plain.parts ? plain.parts->computing : *plain.step_time),
      .at_most = true,
      .advice = "give hungry boards less work (triplepoint place), or exchange them"};
}

/// Where traces mark no passes, launch gaps inside them look like the schedule's.
Seconds idle_of(const StepParts& parts) {
  return parts.gaps + parts.bubble;
}

struct PartWords {
  Seconds (*of)(const StepParts&);
  const char *cause, *what, *advice;
};
constexpr std::array<PartWords, 5> part_words = {
    {{[](const StepParts& p) { return p.exposed_communication; }, "exposed_communication",
      "communication that nothing hides",
      "overlap it, use larger buckets, or look at the links (triplepoint trace comm)"},
     {idle_of, "host", "the GPUs have nothing to run: the host is late, or the schedule",
      "use CUDA graphs or fewer, larger kernels; bind ranks to cores"},
     {[](const StepParts& p) { return p.waiting; }, "waiting",
      "ranks wait for each other in collectives",
      "even out the work of ranks (triplepoint trace stragglers)"},
     {[](const StepParts& p) { return p.computing; }, "computing", "kernels take longer",
      "compare kernels with triplepoint trace diff and clocks with a recording"},
     {[](const StepParts& p) { return p.copying; }, "copies", "copies that nothing hides",
      "pin memory, and copy on another stream"}}};

class Explainer {
 public:
  Explainer(const run::Run& run, const run::Run* predicted)
      : run_(run), predicted_(predicted), seen_(metrics::measure(run)) {
    if (predicted != nullptr) plain_ = metrics::measure(*predicted);
    gap_.history = metrics::step_history(run.steps);
  }

  Gap explain() {
    const metrics::StepHistory& history = gap_.history;
    gap_.measured = history.steps > 0 ? history.mean : seen_.step_time.value_or(Seconds());
    if (predicted_ != nullptr) gap_.predicted = plain_.step_time;
    const Seconds ordinary = history.steps > 0 ? history.ordinary() : gap_.measured;
    gap_.base = gap_.predicted.value_or(ordinary);
    for (const StepPattern& pattern : history.patterns)
      if (!is_inside(pattern)) add(part_of(pattern, history.base));
    name_restarts();
    left_ = ordinary - gap_.base;
    if (gap_.predicted) take_host_calls();  // measured, where devices have upper bounds
    take_devices();
    if (gap_.predicted) {
      take_clocks();
      take_patterns_inside();
      take_variants();
      take_parts();
    } else {
      take_patterns_inside();
      take_gaps();
    }
    finish();
    return std::move(gap_);
  }

 private:
  void add(GapPart part) { gap_.parts.push_back(std::move(part)); }

  /// Where the log says that the training began again, its pauses are restarts.
  void name_restarts() {
    const auto& facts = run_.manifest.facts;
    const auto restarts = facts.find("restarts"), again = facts.find("steps_run_again");
    if (restarts == facts.end() || again == facts.end()) return;
    for (GapPart& part : gap_.parts)
      if (part.cause == "pauses") {
        part.cause = "restarts";
        part.what += fmt::format("; it began again ({}) and ran {} steps twice", restarts->second,
                                 again->second);
        part.advice = "find why it stopped, and save checkpoints as often as that warrants";
      }
  }

  /// A part of the ordinary step: of what is left of the gap, or, without a prediction, of the
  /// base.
  void take(GapPart part) {
    if (gap_.predicted) {
      part.cost = std::min(part.cost, left_);
      left_ = left_ - part.cost;
    } else {
      part.cost = std::min(part.cost, gap_.base);
      gap_.base = gap_.base - part.cost;
    }
    if (part.cost >= least_part * gap_.measured)
      add(std::move(part));
    else if (gap_.predicted)
      left_ += part.cost;
    else
      gap_.base += part.cost;
  }

  void take_devices() {
    for (GapPart& part : parts_of_bottlenecks(run_, seen_)) {
      found_devices_ = true;
      devices_ += part.cost;
      lockstep_ += part.cost;
      take(std::move(part));
    }
  }

  void take_clocks() {
    auto part = clocks_of_all(seen_, *predicted_, plain_);
    // A tighter limit also spreads the clocks of boards.
    if (!part && !found_devices_) part = spread_of_boards(seen_, plain_);
    if (!part) return;
    lockstep_ += part->cost;
    take(*std::move(part));
  }

  /// Of a log they are what is known; a recording or traces say what is behind them.
  void take_patterns_inside() {
    for (const StepPattern& pattern : gap_.history.patterns)
      if (is_inside(pattern) && !found_devices_) take(part_of(pattern, gap_.history.base));
  }

  /// Calls that say what the host was at while the devices were idle.
  void take_host_calls() {
    if (!seen_.parts || !plain_.parts) return;
    const auto calls = metrics::calls_in_gaps(run_.timeline);
    if (!calls || calls->kind == metrics::HostCallKind::other) return;
    const Seconds idle = idle_of(*seen_.parts), more = idle - idle_of(*plain_.parts);
    GapPart part = idle_part(std::min(more, calls->share * idle));
    if (part.cost < least_part * gap_.measured) return;
    in_calls_ = part.cost;
    take(std::move(part));
  }

  void take_variants() {
    if (!predicted_->manifest.job || left_ < least_left * *gap_.predicted) return;
    std::vector<double> seen = fingerprint(seen_);
    if (seen.empty()) return;
    // What is explained already: slow devices compute longer or are waited for.
    seen[computing_mark] -= lockstep_ / unit::s;
    seen[idle_mark] -= in_calls_ / unit::s;
    for (Match& match : matching_variants(*predicted_->manifest.job, seen, plain_)) {
      if (!match.metrics.step_time) continue;
      take({.cause = match.variant.cause,
            .what = match.variant.what,
            .seen_in = "traces",
            .cost = match.share * (*match.metrics.step_time - *gap_.predicted),
            .advice = match.variant.advice});
      is_explained_ = is_explained_ || match.variant.has_degree;
      matches_.push_back(std::move(match));
    }
  }

  /// A part of the step as predicted, with what the variants change.
  Seconds expected(const PartWords& words) const {
    Seconds time = words.of(*plain_.parts);
    for (const Match& match : matches_)
      time += match.share * (words.of(*match.metrics.parts) - words.of(*plain_.parts));
    return time;
  }

  /// What is left, by what the device does; what the slow ones cost is part of waiting.
  void take_parts() {
    if (!seen_.parts || !plain_.parts || is_explained_) return;
    std::vector<GapPart> more;
    for (const PartWords& words : part_words) {
      const Seconds own = words.of(*seen_.parts), usual = expected(words);
      Seconds excess = own - usual;
      if (words.cause == std::string_view("waiting")) excess = excess - devices_;
      if (words.of == idle_of) excess = excess - in_calls_;
      if (excess < least_part * gap_.measured) continue;
      more.push_back({.cause = words.cause,
                      .what = fmt::format("{}: {}, predicted are {}", words.what, time_of(own),
                                          time_of(usual)),
                      .seen_in = "traces",
                      .cost = excess,
                      .advice = words.advice});
      if (words.of != idle_of) continue;
      if (has_stages() && 2 * (seen_.parts->bubble - plain_.parts->bubble) > excess)
        name_stages(more.back());
      name_host(more.back());
    }
    std::ranges::stable_sort(more, [](const auto& a, const auto& b) { return a.cost > b.cost; });
    for (GapPart& part : more)
      take(std::move(part));
  }

  void take_gaps() {
    if (!seen_.parts) return;
    take(idle_part(seen_.parts->gaps));
  }

  GapPart idle_part(Seconds cost) const {
    GapPart part{.cause = "host",
                 .what = fmt::format("nothing runs on the GPUs for {} of a step", time_of(cost)),
                 .seen_in = "traces",
                 .cost = cost,
                 .advice = part_words[1].advice};
    name_host(part);
    return part;
  }

  bool has_stages() const {
    const auto& job = predicted_->manifest.job;
    return job && job->plan.pipeline_parallel_size > 1;
  }

  /// Idle between passes: nothing says that the host is what is late.
  static void name_stages(GapPart& part) {
    part.cause = "bubble";
    part.advice =
        "find the late stage first (triplepoint trace stragglers), then its host or links";
  }

  /// What the host was at meanwhile, where traces have its calls.
  void name_host(GapPart& part) const {
    const auto calls = metrics::calls_in_gaps(run_.timeline);
    if (!calls || calls->share < 0.4) return;
    part.what += fmt::format("; {} of it in {}", percent(calls->share), calls->name);
    if (calls->kind == metrics::HostCallKind::data_loader) {
      part.cause = "data_loader";
      part.advice = "give the data loader more workers and prefetch, or faster storage";
    } else if (calls->kind == metrics::HostCallKind::allocator) {
      part.cause = "allocator";
      part.advice =
          "free memory, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the allocator "
          "gives memory back and asks for it again";
    }
  }

  void finish() {
    gap_.unexplained = gap_.measured - gap_.base;
    for (const GapPart& part : gap_.parts)
      gap_.unexplained = gap_.unexplained - part.cost;
    std::ranges::stable_sort(gap_.parts,
                             [](const auto& a, const auto& b) { return a.cost > b.cost; });
    add_untold();
  }

  void add_untold() {
    const auto untold = [&](const char* text) { gap_.untold.emplace_back(text); };
    if (!gap_.predicted)
      untold("what the step should take, and which setting is wrong: name the job (--against)");
    if (run_.series.empty())
      untold(
          "which GPU, and whether heat, a power limit or a lock: there is no recording "
          "(triplepoint record)");
    if (!seen_.parts)
      untold("communication, late hosts and who waits for whom: there are no traces of kernels");
    if (gap_.history.steps < 20) untold("drift, periods and tails: fewer than 20 steps are known");
  }

  const run::Run& run_;
  const run::Run* predicted_;
  Metrics seen_, plain_;
  Gap gap_;
  // Of the ordinary step: not explained yet; of slow devices, and with clocks of all; in host
  // calls.
  Seconds left_, devices_, lockstep_, in_calls_;
  std::vector<Match> matches_;
  bool found_devices_ = false, is_explained_ = false;
};

}  // namespace

Gap explain_gap(const run::Run& measured, const run::Run* predicted) {
  return Explainer(measured, predicted).explain();
}

}  // namespace triplepoint::advise
