// SPDX-License-Identifier: Apache-2.0
// What is said of found plans.
#include <algorithm>
#include <cmath>
#include <string>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/run_figures.h"
#include "triplepoint/answers/run_objects.h"
#include "triplepoint/search/plan_parts.h"

namespace triplepoint::search {

std::string plan_energy_text(const PlanOutcome& outcome) {
  return fmt::format("energy {}", metrics::scope_text(outcome.asked.objective.scope));
}

std::string against(const OtherPlan& other, const Finalist& first) {
  if (other.missing > Bytes()) return "–";
  const double longer = other.plan.time / first.time - 1;
  return fmt::format("{}{}", longer >= 0 ? "+" : "−", percent(std::abs(longer)));
}

int64_t out_of_memory(const SearchCounts& counts) {
  return counts.out_of_memory + counts.exact_out_of_memory;
}

int64_t not_better(const SearchCounts& counts) {
  return counts.plans - out_of_memory(counts) - counts.simulated;
}

namespace {

using answers::Remark;

/// Less of what was asked for than the job as it is: a share; below zero: more.
double gain_over(const OtherPlan& own, const Finalist& first) {
  return 1 - first.value / own.plan.value;
}

std::string refused_text(const std::vector<Finalist>& refused) {
  if (refused.empty()) return "";
  return fmt::format(
      "Plans that break a limit are left out, or get a lower power limit. Without a lower one, for "
      "example, {} breaks it: {}.",
      plan_text(refused.front()), refused.front().refused);
}

/// How the search got there: plans, plans that did not fit, simulated plans.
std::string counts_text(const SearchCounts& counts, const Limits& limits, bool stopped) {
  return fmt::format("{} plans in {} layouts: {} do not fit in memory{}, {} {}, {} were simulated.",
                     whole(counts.plans), whole(counts.layouts), whole(out_of_memory(counts)),
                     limits.headroom > Bytes() ? " with its headroom" : "",
                     (stopped ? "up to " : "") + whole(not_better(counts)),
                     stopped ? "were not looked at" : "cannot beat what was found",
                     whole(counts.simulated));
}

/// Sentences about the first plan, and about others beside it.
struct PlanWords {
  const PlanOutcome& outcome;
  const Finalist& first = outcome.ranking.ranked.front();
  const spec::Job& base = outcome.asked.base;

  std::string speed_text(const Finalist& plan) const {
    return fmt::format("{} s a step, {} tokens/s a GPU", significant(plan.time),
                       significant(plan.tokens_per_second / as_real(base.world_size())));
  }

  /// Whether a change is worth its trouble: more than the error between plans of one job; of energy
  /// and money, one per cent.
  bool is_worth_it() const {
    if (outcome.asked.objective.goal != Goal::throughput)
      return gain_over(*outcome.own, first) >= 0.01;
    return outcome.own->plan.time > first.time &&
           !metrics::is_tie(outcome.slower_than_first(outcome.own->plan));
  }

  /// "energy at the site".
  std::string energy_text() const { return plan_energy_text(outcome); }

  std::string goal_text() const {
    switch (outcome.asked.objective.goal) {
      case Goal::throughput:
        return "time a step";
      case Goal::energy:
        return energy_text() + " a step";
      case Goal::edp:
        return energy_text() + " times time a step";
      case Goal::cost:
        return "cost a step";
    }
    return "";
  }

  /// What another goal than time costs: against the fastest plan found, in time and in energy of a
  /// wider scope than the goal's.
  std::string price_text() const {
    constexpr double worth_telling = 5e-3;
    const Finalist* fastest = &first;
    for (const Finalist& plan : outcome.ranking.ranked)
      for (const Finalist* each : {&plan, plan.unlimited.empty() ? &plan : plan.unlimited.data()})
        if (each->time < fastest->time) fastest = each;
    const double longer = first.time / fastest->time - 1;
    if (outcome.asked.objective.goal == Goal::throughput || longer < worth_telling) return "";
    const auto site_energy = [&](const Finalist& plan) {
      return energy_in(metrics::EnergyScope::site, base, plan.energy, plan.node_power, plan.time);
    };
    const double more = base.environment.pue ? site_energy(first) / site_energy(*fastest) - 1 : 0;
    return fmt::format(" Its price: steps are {} longer{} than with the fastest plan found, {}.",
                       percent(longer),
                       outcome.asked.objective.scope == metrics::EnergyScope::site ||
                               std::abs(more) < worth_telling
                           ? ""
                           : fmt::format(" and take {} {} energy at the site",
                                         percent(std::abs(more)), more > 0 ? "more" : "less"),
                       plan_text(*fastest));
  }

  std::string verdict() const {
    const std::string plan_1 = fmt::format("plan 1, {}: {}", plan_text(first), speed_text(first));
    if (outcome.asked.watch.stopped())
      return fmt::format(
          "The search was interrupted and concludes nothing; the best until then is {}. Search "
          "again to its end, or hold some dimensions with --fix.",
          plan_1);
    const std::string price = price_text();
    if (!outcome.own) return "Run " + plan_1 + "." + price;
    if (outcome.own->missing > Bytes())
      return fmt::format("Your job does not fit ({}). Run {}.{}", missing_text(*outcome.own),
                         plan_1, price);
    if (const std::string& broken = outcome.own->plan.refused; !broken.empty())
      return fmt::format("Your job breaks a limit: {}. Run {}.{}", broken, plan_1, price);
    const double gain = gain_over(*outcome.own, first);
    const std::string goal = goal_text();
    if (!is_worth_it())
      return fmt::format("Keep your job: no plan found is surely better ({}; {} {} {}).", plan_1,
                         percent(std::abs(gain)), gain < 0 ? "more" : "less", goal);
    return fmt::format("Change to {}; {} less {} than your job.{}", plan_1, percent(gain), goal,
                       price);
  }

  /// " 12 of the 30 best plans found are better; plan 1 is faster with a probability of 97 %."
  std::string rank_text() const {
    const Finalist& own = outcome.own->plan;
    if (outcome.own->missing > Bytes() || outcome.asked.watch.stopped()) return "";
    if (!own.refused.empty()) return fmt::format(" It breaks a limit: {}.", own.refused);
    const auto& ranked = outcome.ranking.ranked;
    const auto better =
        std::ranges::count_if(ranked, [&](const Finalist& plan) { return plan.value < own.value; });
    if (better == 0) return " No plan found is better.";
    if (better == std::ssize(ranked))
      return fmt::format(
          " All {} best plans found are better; plan 1 is faster with a probability of {}.", better,
          percent(outcome.slower_than_first(own)));
    return fmt::format(
        " Of the {} best plans found {} {} better; plan 1 is faster with a probability of {}.",
        ranked.size(), better, better == 1 ? "is" : "are", percent(outcome.slower_than_first(own)));
  }

  /// What one or two changes of one's own job bring and cost.
  std::string change_text(const OtherPlan& change) const {
    const Finalist &own = outcome.own->plan, &now = change.plan;
    const std::string words = fmt::format("Change of your job ({}): ", change.what);
    if (outcome.own->missing > Bytes())
      return words + fmt::format("{} s a step, {} GiB.", significant(now.time),
                                 significant(now.candidate.memory / unit::GiB));
    return words + fmt::format(
                       "{} s a step ({}), because of {}; memory {} to {} GiB, hottest die {} to {} "
                       "°C, {} to {} W a GPU; numerics stay{}.",
                       significant(now.time), against(change, own), causes_text(now, own),
                       significant(own.candidate.memory / unit::GiB),
                       significant(now.candidate.memory / unit::GiB), significant(own.hottest),
                       significant(now.hottest), significant(own.power_mean),
                       significant(now.power_mean),
                       now.refused.empty() ? "" : "; it breaks a limit: " + now.refused);
  }

  /// "Plans 2, 3 and 5 cannot be told from plan 1 ...", where any is; of time alone, as errors of
  /// other goals are not known.
  std::string ties_text() const {
    if (outcome.asked.objective.goal != Goal::throughput) return "";
    std::vector<std::string> ties;
    const auto& ranked = outcome.ranking.ranked;
    for (size_t i = 1; i < std::min(outcome.asked.top, ranked.size()); ++i)
      if (const double slower = outcome.slower_than_first(ranked[i]); metrics::is_tie(slower))
        ties.push_back(fmt::format("{} ({})", i + 1, percent(slower)));
    if (ties.empty()) return "";
    return fmt::format(
        "Too near to plan 1 for the error of predictions (a tie): plan{} {}, the probability that "
        "plan 1 is faster in brackets. Choose by memory, power or simplicity.",
        ties.size() == 1 ? "" : "s", fmt::join(ties, ", "));
  }

  std::string interval_sentence() const {
    const auto interval = outcome.step_time(first);
    if (!interval) return "";
    return fmt::format(
        "The interval is from {} measured jobs.{}", outcome.interval_rows(),
        std::min(outcome.asked.top, outcome.ranking.ranked.size()) < 2
            ? ""
            : " P(slower): probability that a plan really is slower than plan 1. Front *: no plan "
              "found is better in time, energy, peak power and peak temperature at once.");
  }

  std::string next_measurement_text() const {
    const auto& next = outcome.own_runs.next;
    if (!next || next->narrowing < 0.05) return "";
    return fmt::format(
        "Measure next: a step of plan 1 on {} ({} s) narrows its interval by {}; give it to "
        "triplepoint calibrate with your other runs.",
        next->on, significant(next->step_time_s), percent(next->narrowing));
  }

  std::string power_limit_text() const {
    if (!first.power_limit) return "";
    std::string change;
    if (!first.unlimited.empty())
      change = fmt::format("; with it steps are {} longer, for {} less {}",
                           percent(first.time / first.unlimited[0].time - 1),
                           percent(1 - first.value / first.unlimited[0].value), goal_text());
    return fmt::format(
        "Plan 1 {} a power limit of {:.0f} W on every GPU (nvidia-smi -pl, amd-smi set "
        "--power-cap){}; its job.toml has it, Megatron's and NeMo's files cannot.",
        change.empty() ? "needs" : "has", *first.power_limit / unit::W, change);
  }

  /// Beside a limit of power what the others then are.
  std::string power_levels_text() const {
    const Limits& limits = outcome.asked.limits;
    if (!limits.device_power && !limits.node_power && !limits.total_power && !limits.site_power)
      return "";
    const double nodes = as_real(base.cluster.num_nodes);
    const double gpus = as_real(base.world_size());
    std::string text = fmt::format(
        "Plan 1 draws {} kW in its GPUs (the highest peak of one is {} W), {} kW at the supplies "
        "of all nodes ({} kW a node)",
        significant(gpus * first.power_mean / 1e3), significant(first.power_peak),
        significant(nodes * first.node_power / 1e3), significant(first.node_power / 1e3));
    if (base.environment.pue)
      text += fmt::format(" and {} kW at the site's meter (PUE {})",
                          significant(*base.environment.pue * nodes * first.node_power / 1e3),
                          significant(*base.environment.pue));
    return text + ".";
  }

  std::vector<Remark> remarks() const {
    std::vector<Remark> remarks;
    const auto add = [&](std::string text, Remark::Kind kind = Remark::Kind::finding) {
      if (!text.empty()) remarks.push_back({std::move(text), kind});
    };
    if (outcome.own) add(own_text(*outcome.own, first) + rank_text());
    for (const OtherPlan& change : outcome.changes)
      add(change_text(change));
    add(ties_text());
    add(interval_sentence());
    add(next_measurement_text());
    add(refused_text(outcome.ranking.refused));
    if (const auto note = answers::unlimited_die_note(base.cluster.gpu, Celsius(first.hottest)))
      add("Plan 1: " + *note + ".", Remark::Kind::warning);
    add(power_limit_text());
    add(power_levels_text());
    if (const spec::OptimizerState& optimizer = base.plan.optimizer;
        optimizer.gradient_sync_bytes < 4 && !base.plan.lora)
      add(fmt::format(
              "Gradients are kept and summed in {} bytes (optimizer {}), which is numerics; "
              "--optimizer megatron_distributed_optim keeps them in fp32 and needs more memory.",
              optimizer.gradient_sync_bytes, optimizer.name),
          Remark::Kind::warning);
    if (outcome.bill)
      add("Bill of plan 1: " + metrics::bill_text(outcome.bill(first), outcome.rates) + "." +
          answers::likely_bill_text(outcome.bill(first), first.time, outcome.step_time(first)));
    add(counts_text(outcome.ranking.counts, outcome.asked.limits, outcome.asked.watch.stopped()));
    for (std::string& note : assumptions_of(base))
      add(std::move(note), Remark::Kind::note);
    return remarks;
  }

  std::vector<answers::KeyFigure> key_figures() const {
    const double gpus = as_real(base.world_size());
    const auto likely = outcome.step_time(first);
    std::vector<answers::KeyFigure> figures = {
        {"step of plan 1", significant(first.time) + " s",
         likely ? answers::interval_text(*likely) : ""},
        {"speed", significant(first.tokens_per_second / gpus) + " tokens/s",
         "a GPU; MFU " + percent(first.mfu)},
        {energy_text(), significant(joules_per_token(first)) + " J/token",
         (outcome.asked.objective.scope == metrics::EnergyScope::gpu
              ? ""
              : "GPUs alone " + significant(first.energy / (first.tokens_per_second * first.time)) +
                    "; ") +
             significant(first.power_mean) + " W a GPU on average"},
        {"hottest die", significant(first.hottest) + " °C",
         "peak power " + significant(first.power_peak, 4) + " W"},
        {"memory", significant(first.candidate.memory / unit::GiB) + " GiB",
         base.cluster.gpu.memory
             ? fmt::format("of {} GiB", significant(*base.cluster.gpu.memory / unit::GiB))
             : ""}};
    if (outcome.own && outcome.own->missing > Bytes())
      figures.push_back({your_job, "does not fit", missing_text(*outcome.own)});
    else if (outcome.own)
      figures.push_back({your_job, against(*outcome.own, first), "step time against plan 1"});
    return figures;
  }
};

}  // namespace

std::string limits_text(const Limits& limits) {
  std::vector<std::string> words;
  if (limits.temperature)
    words.push_back(fmt::format("die at most {} °C", significant(limits.temperature->degrees())));
  const auto add = [&](const std::optional<Watts>& power, const char* what) {
    if (power)
      words.push_back(fmt::format("{} at most {} kW", what, significant(*power / unit::kW)));
  };
  add(limits.device_power, "peak of a GPU");
  add(limits.node_power, "a node");
  add(limits.total_power, "all nodes");
  add(limits.site_power, "the site");
  if (limits.headroom > Bytes())
    words.push_back(
        fmt::format("{} GiB of memory free, for the error of predictions (--memory-headroom)",
                    significant(limits.headroom / unit::GiB)));
  if (words.empty()) return "no limit but memory was set";
  return fmt::format("limits kept: {}", fmt::join(words, ", "));
}

std::string verdict_of(const PlanOutcome& outcome) {
  return PlanWords{outcome}.verdict();
}

std::vector<Remark> remarks_of(const PlanOutcome& outcome) {
  return PlanWords{outcome}.remarks();
}

std::vector<answers::KeyFigure> key_figures_of(const PlanOutcome& outcome) {
  return PlanWords{outcome}.key_figures();
}

}  // namespace triplepoint::search
