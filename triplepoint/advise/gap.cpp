// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/gap.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/advise/gap_model.h"
#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/own_time.h"
#include "triplepoint/metrics/trace/trace_steps.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {

namespace {

using metrics::Metrics;
using metrics::StepParts;
using metrics::StepPattern;

constexpr double least_part = 0.01;  // of the step; less is left unexplained
constexpr double least_left = 0.02;  // of the step, for which settings are tried
constexpr double near = 0.15;  // of the step, within which a simulated job is as a measured one

bool is_inside(const StepPattern& pattern) {
  using Kind = StepPattern::Kind;
  return pattern.kind == Kind::drift || pattern.kind == Kind::slowdown ||
         pattern.kind == Kind::spell;
}

metrics::StepHistory history_of(const run::Run& run) {
  const bool is_simulated = run.manifest.origin == run::Origin::simulated;
  return metrics::step_history(
      run.steps, is_simulated ? metrics::StepTimes::of_steps : metrics::StepTimes::of_lines);
}

/// Steps of a level may be shorter than its median, in the mean.
Seconds ordinary_step(const metrics::StepHistory& history) {
  return history.ordinary() + std::min(Seconds(), history.rest);
}

/// Single long steps: every training has some.
bool is_small(const StepPattern& pattern, Seconds step) {
  return pattern.kind == StepPattern::Kind::tails && pattern.cost < least_part * step;
}

class Explainer {
 public:
  Explainer(const run::Run& run, const run::Run* predicted,
            const metrics::PredictionIntervals& intervals)
      : run_(run),
        predicted_(predicted),
        intervals_(intervals),
        seen_(metrics::measure(run)),
        calls_(metrics::calls_in_gaps(run.timeline)) {
    gap_.history = history_of(run);
    look_at_ranks();
    if (predicted == nullptr) return;
    if (!run.manifest.job && predicted->manifest.job)
      gap_.predicted_of = answers::group_label(*predicted->manifest.job);
    gap_.unlike = unlike(run, *predicted);
    if (!gap_.unlike.empty()) {
      predicted_ = nullptr;
      return;
    }
    gap_.against_recording = predicted->manifest.origin != run::Origin::simulated;
    plain_ = metrics::measure(*predicted);
    gap_.predicted = plain_.step_time;
    if (predicted->steps.size() > 1) {
      usual_ = history_of(*predicted);
      gap_.predicted = usual_.mean;
      other_.emplace(OtherRun{*predicted, plain_});
    }
    gap_.set_up = set_up_apart(run, *predicted);
    if (!gap_.set_up.empty()) take_settings();
  }

  Gap explain() {
    const metrics::StepHistory& history = gap_.history;
    gap_.measured = history.steps > 0 ? history.mean : seen_.step_time.value_or(Seconds());
    ordinary_ = history.steps > 0 ? ordinary_step(history) : gap_.measured;
    gap_.base = gap_.predicted.value_or(rank_steps_.empty() ? ordinary_ : gap_.measured);
    for (StepPattern pattern : history.patterns) {
      if (const StepPattern* const same = usual_.find(pattern.kind); same && !is_inside(pattern)) {
        pattern.cost = pattern.cost - same->cost;
        if (pattern.cost < least_part * gap_.measured) continue;
      }
      if (gap_.predicted && is_of_clocks(pattern, run_, seen_, history.base)) {
        ordinary_ = ordinary_ + pattern.cost;
      } else if (!is_inside(pattern) && !is_small(pattern, ordinary_)) {
        gap_.parts.push_back(part_of(pattern, history.base));
        name_marked_region(run_, pattern, gap_.parts.back());
        if (!gap_.predicted && !rank_steps_.empty()) gap_.base = gap_.base - pattern.cost;
      }
    }
    name_restarts();
    left_ = ordinary_ - (usual_.steps > 0 ? ordinary_step(usual_) : gap_.base);
    if (settings_) take(*settings_);
    if (gap_.predicted) take_host_calls();
    for (OtherCause& cause : causes_of_others(run_, seen_, other_)) {
      found_devices_ = true;
      if (cause.change && can_simulate()) {
        disturbed_.push_back({*std::move(cause.change), {std::move(cause.part)}});
        continue;
      }
      explained_.ranks += cause.part.cost;
      take(std::move(cause.part));
    }
    take_core_waits();
    if (can_simulate())
      explain_by_job();
    else
      explain_by_bounds();
    finish();
    return std::move(gap_);
  }

 private:
  /// What settings that are known to differ cost, by simulation; what is measured is then compared
  /// with its own job.
  void take_settings() {
    spec::Job job = *run_.manifest.job;
    if (!(job.stack == predicted_->manifest.job->stack)) return;  // a learned one predicts better
    job.environment.faults.clear();
    own_ = sim::simulate(job, {});
    Metrics own = metrics::measure(own_);
    if (!run::has_trained(own_) || !own.step_time || !gap_.predicted) return;
    const bool is_simulated = predicted_->manifest.origin == run::Origin::simulated;
    const Metrics other = is_simulated ? plain_ : simulated_metrics(*predicted_->manifest.job);
    if (!other.step_time) return;
    // Beside a measured run the simulation tells by which factor steps differ.
    const Seconds cost = (*own.step_time / *other.step_time - 1) * *gap_.predicted;
    if (cost < least_part * *gap_.predicted) return;
    settings_ = GapPart{.cause = "settings",
                        .what = fmt::format("set up otherwise: {}", fmt::join(gap_.set_up, "; ")),
                        .seen_in = "prediction",
                        .cost = cost,
                        .advice = "set what differs as in the job that it is compared with"};
    if (!is_simulated) return;
    predicted_ = &own_;
    plain_ = std::move(own);
    other_.reset();
  }

  /// What is seen in detail is of the last step; of the ordinary step it is as much less as that is
  /// nearer to the prediction.
  double share_of_ordinary_step() const {
    if (!seen_.step_time || !plain_.step_time) return 1;
    const Seconds seen = *seen_.step_time - *plain_.step_time;
    const Seconds ordinary = ordinary_ - (other_ ? ordinary_step(usual_) : *plain_.step_time);
    return ordinary > Seconds() && seen > ordinary ? ordinary / seen : 1;
  }

  /// What most ranks wait for cores, beyond what they did in the run that it is compared with.
  void take_core_waits() {
    const Seconds own = usual_core_wait(run_.core_waits);
    const Seconds before = gap_.predicted ? usual_core_wait(predicted_->core_waits) : Seconds();
    if (own - before < least_left * gap_.measured) return;
    explained_.cores = own - before;
    GapPart part = part_of_core_waits(
        fmt::format("most ranks wait {} of a step for a core", time_of(own)), explained_.cores);
    part.at_most = !gap_.predicted;
    take(std::move(part));
  }

  bool can_simulate() const { return gap_.predicted && predicted_->manifest.job.has_value(); }

  /// Steps of single ranks, where their kernels are known; of traces alone also how long they are.
  void look_at_ranks() {
    const run::Timeline& timeline = run_.timeline;
    const bool is_traced = timeline.instances.empty() && !timeline.spans.empty() &&
                           run_.manifest.origin != run::Origin::simulated &&
                           !metrics::knows_collectives_only(timeline);
    if (!is_traced) return;
    metrics::TraceSteps steps = metrics::find_steps(timeline);
    steps_left_out_ = steps.steps.size();
    steps = metrics::consecutive_steps(std::move(steps));
    steps_left_out_ -= steps.steps.size();
    int64_t shown = 1;
    if (run_.manifest.origin != run::Origin::imported && !run_.steps.empty() &&
        steps.source != metrics::StepSource::annotations) {  // the recording knows steps
      steps = {};
      shown = std::max<int64_t>(1, std::ssize(run::detailed_steps(run_)));
    }
    rank_steps_ = metrics::mean_steps(timeline, steps);
    for (metrics::MeanStep& rank : rank_steps_)
      for (const auto of : metrics::idle_classes)
        rank.idle.*of /= shown;
    gap_.is_whole_trace = run_.steps.empty() && !rank_steps_.empty();
    if (!gap_.is_whole_trace) return;
    // A rank's own span, and not that of all ranks, whose profilers begin one by one.
    double length = 0, idle = 0;
    for (const metrics::MeanStep& rank : rank_steps_) {
      length += as_real(rank.length);
      idle += as_real(rank.idle.total());
    }
    const auto ranks = as_real(rank_steps_.size());
    seen_.step_time = length / ranks * unit::ns;
    if (seen_.parts) seen_.parts->gaps = idle / ranks * unit::ns;
  }

  /// Where the log says that the training began again, its pauses are restarts.
  void name_restarts() {
    const auto &restarts = run_.numbers.restarts, &again = run_.numbers.steps_run_again;
    if (!restarts || !again) return;
    for (GapPart& part : gap_.parts)
      if (part.cause == "pauses") {
        part.cause = "restarts";
        part.what += fmt::format("; it began again ({}) and ran {} steps twice", *restarts, *again);
        part.advice = "find why it stopped, and save checkpoints as often as that warrants";
      }
  }

  /// A part of the ordinary step: of what is left of the gap, or, without a prediction, of the
  /// base.
  void take(GapPart part) {
    Seconds& rest = gap_.predicted ? left_ : gap_.base;
    part.cost = std::min(part.cost, rest);
    if (part.cost < least_part * gap_.measured) return;
    rest = rest - part.cost;
    gap_.parts.push_back(std::move(part));
  }

  /// Two runs of one training differ by some per cent, and no part of them is to blame: jobs of
  /// validation/ that were measured more than once by 2.9 % in the median of 228, by 6 % in one
  /// of four.
  bool is_as_other_run() const {
    constexpr double run_to_run = 0.05;
    return gap_.predicted && predicted_->manifest.origin == run::Origin::measured &&
           left_ < run_to_run * gap_.measured;
  }

  /// Of a log they are what is known; a recording or traces say what is behind them.
  void take_patterns_inside() {
    if (is_as_other_run()) return;
    for (const StepPattern& pattern : gap_.history.patterns) {
      if (!is_inside(pattern)) continue;
      GapPart part = part_of(pattern, gap_.history.base);
      if (name_slow_devices(run_, pattern, named_devices(), part) || !found_devices_)
        take(std::move(part));
    }
  }

  /// GPUs that are slow as they are seen in detail, or in the mean.
  std::vector<int32_t> named_devices() const {
    std::vector<int32_t> named = held_;
    for (const run::Bottleneck& slow : seen_.bottlenecks)
      for (const run::Device& device : run_.devices) {
        const bool of_node = slow.of == run::Bottleneck::Of::node;
        if (slow.of != run::Bottleneck::Of::rank &&
            std::ranges::count(slow.who, of_node ? device.node : device.index) > 0)
          named.push_back(device.index);
      }
    return named;
  }

  /// Of two measured runs: as far as the prediction of what settings cost may be off.
  void take_rest_of_settings() {
    if (!settings_ || !gap_.against_recording || left_ <= Seconds()) return;
    const auto part = std::ranges::find(gap_.parts, "settings", &GapPart::cause);
    if (part == gap_.parts.end()) return;
    const Seconds expected = gap_.base + part->cost;
    if (!metrics::is_tie(
            intervals_.probability_longer((expected + left_) / unit::s, expected / unit::s)))
      return;
    part->what += fmt::format(" (simulated, {} of it)", time_of(part->cost));
    part->cost += left_;
    part->at_most = true;
    left_ = Seconds();
  }

  /// Calls that say what the host was at while the devices were idle, or, of a pipeline, waited.
  void take_host_calls() {
    if (!seen_.parts || !plain_.parts || !calls_ ||
        (calls_->kind != metrics::HostCallKind::data_loader &&
         calls_->kind != metrics::HostCallKind::allocator))
      return;
    const auto steps = as_real(std::max<size_t>(1, run::detailed_steps(run_).size()));
    const Seconds idle = std::max(Seconds(), idle_of(*seen_.parts) - idle_of(*plain_.parts));
    const Seconds waiting = std::max(Seconds(), seen_.parts->waiting - plain_.parts->waiting);
    const Seconds cost = std::min(idle + waiting, calls_->time / steps);
    if (cost < least_part * gap_.measured) return;
    explained_.idle_in_calls = std::min(idle, cost);
    explained_.waiting_in_calls = cost - explained_.idle_in_calls;
    GapPart part{.what = "nothing runs on the GPUs", .seen_in = "traces", .cost = cost};
    name_host_calls(*calls_, part, Calls::all_of_it);
    take(std::move(part));
  }

  // ---- without a job to simulate

  void note(const ClockCause& cause) {
    found_devices_ = true;
    for (const ClockCause::Held& held : cause.held)
      held_.push_back(run_.devices[held.device].index);
  }

  void take_bounds(ClockCause& cause) {
    for (GapPart& part : cause.parts) {
      explained_.clocks += part.cost;
      take(std::move(part));
    }
  }

  void explain_by_bounds() {
    for (ClockCause& cause : clock_causes(run_, seen_, gap_.predicted ? &plain_ : nullptr,
                                          gap_.against_recording, other_)) {
      note(cause);
      take_bounds(cause);
    }
    take_patterns_inside();
    take_rest_of_settings();
    if (gap_.predicted) {
      take_one_factor(plain_, plain_);
      take_rest(plain_, plain_);
    } else {
      take_idle();
      take_exposed();
    }
  }

  /// Of traces alone, whose parts must be those of the step that is explained.
  void take_exposed() {
    constexpr double much = 0.1, alike = 0.1;
    if (!gap_.history.steps || !seen_.parts || rank_steps_.empty()) return;
    if (abs(seen_.parts->total() - gap_.measured) > alike * gap_.measured) return;
    const metrics::CollectiveMatch match =
        metrics::match_collectives(run_.timeline, metrics::job_ranks_of(run_));
    double of_peers = 0, of_stages = 0;  // waits in collectives, and in messages of a pipeline
    for (const metrics::ExposedWaits& rank : metrics::exposed_waits(run_.timeline, match)) {
      of_peers += as_real(rank.late_peers);
      of_stages += as_real(rank.pipeline);
    }
    const Seconds of_mean_step =
        unit::ns / as_real(rank_steps_.size() * std::max<int64_t>(1, gap_.history.steps));
    const Seconds exposed =
        seen_.parts->exposed_communication - (of_peers + of_stages) * of_mean_step;
    // Who is late makes stages wait, too.
    if (explained_.ranks == Seconds() && of_stages * of_mean_step > much * gap_.measured)
      take({.cause = "bubble",
            .what = "stages of the pipeline wait for messages: it fills and drains, or a stage "
                    "takes longer",
            .seen_in = "traces",
            .cost = of_stages * of_mean_step,
            .at_most = true,
            .advice = "use more microbatches or an interleaved schedule, and stages of equal "
                      "length"});
    if (exposed < much * gap_.measured) return;
    take({.cause = "exposed_communication",
          .what = match.has_all_ranks && match.unmatched == 0
                      ? "collectives transfer with nothing to compute beside them"
                      : "collectives and messages have nothing to compute beside them: transfers, "
                        "or waits for ranks that are not shown",
          .seen_in = "traces",
          .cost = exposed,
          .at_most = true,
          .advice = "overlap them, or look at their sizes and bandwidth (triplepoint trace comm)"});
  }

  /// Of ranks that are not late themselves: what these are late by is theirs.
  void take_idle() {
    std::vector<metrics::MeanStep> ranks = rank_steps_;
    for (const run::Bottleneck& late : seen_.bottlenecks)
      if (late.of == run::Bottleneck::Of::rank && std::ssize(late.who) < std::ssize(ranks))
        std::erase_if(ranks, [&](const metrics::MeanStep& rank) {
          return std::ranges::find(late.who, rank.rank) != late.who.end();
        });
    for (GapPart& part : parts_of_idle(ranks, calls_))
      take(std::move(part));
  }

  // ---- with one

  /// A change of the job that explains some parts, whose costs are to follow.
  struct Named {
    JobChange change;
    std::vector<GapPart> parts;
  };

  void explain_by_job() {
    const spec::Job& job = *predicted_->manifest.job;
    const bool is_simulated = predicted_->manifest.origin == run::Origin::simulated;
    const Metrics simulated = is_simulated ? plain_ : simulated_metrics(job);
    const std::vector<ClockCause> clocks = name_clocks(job);
    std::ranges::move(disturbed_, std::back_inserter(named_));
    take_patterns_inside();
    Metrics now = named_.empty() ? simulated : simulated_metrics(changed(job));
    // What settings change in a simulated job says nothing unless that is as the measured one.
    take_one_factor(simulated, now);
    if (!has_one_factor_ && simulated.step_time &&
        abs(*simulated.step_time - *plain_.step_time) < near * *plain_.step_time)
      name_settings(changed(job), simulated, now);
    if (named_.empty()) {
      take_rest_of_settings();
      return take_rest(plain_, plain_);
    }
    if (named_.size() > clocks.size() + disturbed_.size()) {
      fit_clocks_again(clocks, job);
      now = simulated_metrics(changed(job));
    }
    settle_costs(job);
    take_rest(simulated, now);
  }

  /// At the settings that were found: a mean clock depends on what else a step does.
  void fit_clocks_again(const std::vector<ClockCause>& clocks, spec::Job job) {
    for (size_t i = clocks.size(); i < named_.size(); ++i)
      named_[i].change(job);
    for (size_t i = 0; i < clocks.size(); ++i)
      if (auto change = change_of(clocks[i], run_, seen_, job)) named_[i].change = *change;
  }

  spec::Job changed(spec::Job job) const {
    for (const Named& one : named_)
      one.change(job);
    return job;
  }

  /// Those that can be simulated.
  std::vector<ClockCause> name_clocks(const spec::Job& job) {
    std::vector<ClockCause> named;
    for (ClockCause& cause : clock_causes(run_, seen_, &plain_, gap_.against_recording, other_)) {
      note(cause);
      if (auto change = change_of(cause, run_, seen_, job)) {
        named_.push_back({*std::move(change), cause.parts});
        named.push_back(std::move(cause));
      } else {
        take_bounds(cause);
      }
    }
    return named;
  }

  /// Settings and disturbances whose marks, beside the recorded clocks, are those of the traces.
  void name_settings(const spec::Job& job, const Metrics& simulated, const Metrics& now) {
    const Marks plain = marks_of(plain_), here = marks_of(now);
    Marks seen = marks_of(seen_);
    if (seen.empty() || plain.empty() || here.empty() || !now.step_time) return;
    const Seconds left = left_ - (*now.step_time - *simulated.step_time);
    if (left < least_left * *gap_.predicted) return;
    seen = difference_of(difference_of(seen, plain), difference_of(here, marks_of(simulated)));
    // What is explained already: slow devices compute longer or are waited for.
    seen[computing_mark] -=
        (explained_.ranks + explained_.clocks + explained_.cores + explained_.waiting_in_calls) /
        unit::s;
    seen[idle_mark] -= explained_.idle_in_calls / unit::s;
    for (const Match& match : matching_variants(job, here, seen, *now.step_time))
      named_.push_back({[match](spec::Job& other) { match.apply_to(other); },
                        {{.cause = match.variant.cause,
                          .what = match.variant.text(match.degree),
                          .seen_in = "traces",
                          .advice = match.variant.advice}}});
  }

  void settle_costs(const spec::Job& job) {
    std::vector<JobChange> changes = mapped(named_, &Named::change);
    const std::vector<Seconds> costs = costs_of(job, changes);
    for (size_t i = 0; i < named_.size(); ++i) {
      Seconds bounds = sum_of(named_[i].parts, &GapPart::cost);
      for (GapPart& part : named_[i].parts) {
        part.cost = share_of_ordinary_step() *
                    (bounds > Seconds() ? part.cost / bounds * costs[i] : costs[i]);
        part.at_most = false;
        if (part.cost < least_part * gap_.measured) continue;
        left_ = left_ - part.cost;
        gap_.parts.push_back(std::move(part));
      }
    }
  }

  // ---- the rest

  std::vector<Excess> excesses(const Metrics& before, const Metrics& after) const {
    if (!seen_.parts || !plain_.parts || !before.parts || !after.parts) return {};
    return excesses_of(*seen_.parts, *plain_.parts, *before.parts, *after.parts, explained_);
  }

  void take_one_factor(const Metrics& before, const Metrics& after) {
    if (is_as_other_run()) return;
    const bool knows_clocks = seen_.sm_clock_mean_mhz && plain_.sm_clock_mean_mhz;
    auto part = part_of_one_factor(excesses(before, after), gap_.against_recording, knows_clocks);
    has_one_factor_ = part.has_value();
    if (part) take(*std::move(part));
  }

  /// What is left, by what the device does.
  void take_rest(const Metrics& before, const Metrics& after) {
    if (has_one_factor_ || is_as_other_run()) return;
    std::vector<Excess> all = excesses(before, after);
    std::ranges::stable_sort(all, std::greater(), &Excess::excess);
    for (const Excess& one : all)
      if (one.excess >= least_part * gap_.measured) take_more(part_of_excess(one, before, after));
  }

  /// Of a cause that is named already it is what the fit of its degree has left.
  void take_more(GapPart part) {
    const auto same = std::ranges::find(gap_.parts, part.cause, &GapPart::cause);
    if (same == gap_.parts.end() || part.cause == unknown_cause) return take(std::move(part));
    const Seconds cost = std::min(part.cost, std::max(Seconds(), left_));
    same->cost += cost;
    left_ = left_ - cost;
  }

  GapPart part_of_excess(const Excess& one, const Metrics& before, const Metrics& after) const {
    GapPart part = part_of(one, fmt::format("{}{}", whose(gap_.against_recording),
                                            named_.empty() ? "" : " with what is named above"));
    if (!one.is_idle) return part;
    const auto bubble = [](const Metrics& of) { return of.parts->bubble; };
    if (has_stages() &&
        2 * (bubble(seen_) - bubble(plain_) - bubble(after) + bubble(before)) > one.excess)
      name_stages(part);
    const bool is_told = explained_.idle_in_calls + explained_.waiting_in_calls > Seconds();
    if (!is_told && calls_ && calls_->share >= most_of_idle)
      name_host_calls(*calls_, part, Calls::share_of_it);
    else if (!is_told && were_launched())
      part.cause = unknown_cause;
    return part;
  }

  /// Most idle time lies before kernels that had been launched.
  bool were_launched() const {
    metrics::IdleTime sum;
    for (const metrics::MeanStep& rank : rank_steps_)
      for (const auto of : metrics::idle_classes)
        sum.*of += rank.idle.*of;
    return sum.kernel_wait + sum.other > sum.host_wait + sum.unknown;
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
    if (steps_left_out_ > 0)
      gap_.untold.push_back(
          fmt::format("{} more marked steps, whose numbers do not follow on those that are looked "
                      "at",
                      steps_left_out_));
    if (gap_.is_whole_trace)
      untold("how long a step is: the traces mark none, and their kernels do not repeat");
    if (std::ranges::any_of(gap_.parts, [](const auto& part) { return part.cause == "host"; }))
      untold("how late the host is without a profiler, which slows it");
  }

  const run::Run& run_;
  const run::Run* predicted_;
  const metrics::PredictionIntervals& intervals_;
  Metrics seen_, plain_;
  metrics::StepHistory usual_;       // of a run of several steps that it is compared with
  std::optional<OtherRun> other_;    // that run
  run::Run own_;                     // the job as it was set up, where that differs
  std::optional<GapPart> settings_;  // and what that costs
  std::optional<metrics::GapCalls> calls_;
  std::vector<metrics::MeanStep> rank_steps_;  // where the kernels of ranks are known
  Gap gap_;
  Seconds ordinary_;  // step
  Seconds left_;      // of it, not explained yet
  Explained explained_;
  std::vector<Named> named_, disturbed_;
  std::vector<int32_t> held_;  // devices with slow clocks
  size_t steps_left_out_ = 0;  // of traces
  bool found_devices_ = false, has_one_factor_ = false;
};

}  // namespace

std::vector<run::StepRecord> steps_of_traces(const run::Timeline& timeline) {
  const metrics::TraceSteps found = metrics::consecutive_steps(metrics::find_steps(timeline));
  std::set<int32_t> working;
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (metrics::is_kernel(metrics::type_of(timeline, timeline.spans[i]).kind))
      working.insert(found.step_of_span[i]);
  working.erase(-1);
  std::vector<run::StepRecord> steps;
  for (const metrics::TraceStep& step : found.steps) {
    const auto number = static_cast<int32_t>(&step - found.steps.data());
    if (!working.empty() && !working.contains(number)) continue;
    double begin = 0, end = 0;
    for (const metrics::TraceStep::OfRank& rank : step.ranks) {
      begin += as_real(rank.begin) / as_real(step.ranks.size());
      end += as_real(rank.end) / as_real(step.ranks.size());
    }
    if (begin < end)
      steps.push_back({Instant(std::llround(begin)), Instant(std::llround(end)), 0, 0});
  }
  return steps;
}

Gap explain_gap(const run::Run& measured, const run::Run* predicted,
                const metrics::PredictionIntervals& intervals) {
  return Explainer(measured, predicted, intervals).explain();
}

}  // namespace triplepoint::advise
