// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/plan_answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/search/search.h"
#include "triplepoint/search/space.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::search {
namespace {

using answers::Remark;
using answers::Section;

constexpr const char* your_job = "your job";

/// Colours of Term, in its order.
constexpr std::array<const char*, term_count> styles = {
    "k-compute",  "recomputed", "t-communication", "k-other", "capped",
    "k-sendrecv", "t-wait",     "k-reducescatter", "s4",      "t-next"};

const Finalist& first_of(const PlanOutcome& outcome) {
  return outcome.ranking.ranked.front();
}

/// Probability that a plan really takes longer than another.
double slower(const PlanOutcome& outcome, const Finalist& plan, const Finalist& than) {
  if (outcome.own_runs.runs > 0) return outcome.own_runs.longer(plan, than);
  return outcome.intervals.probability_longer(plan.time, than.time);
}

double slower_than_first(const PlanOutcome& outcome, const Finalist& plan) {
  return slower(outcome, plan, first_of(outcome));
}

std::optional<metrics::Interval> step_time_interval(const PlanOutcome& outcome,
                                                    const Finalist& plan) {
  if (outcome.own_runs.runs == 0)
    return outcome.intervals.step_time(job_of(outcome.asked.base, plan), plan.time);
  const double factor = outcome.own_runs.factor(plan);
  return metrics::Interval{plan.time / factor, plan.time * factor};
}

/// Measured jobs that an interval rests on.
int64_t interval_rows(const PlanOutcome& outcome) {
  return outcome.own_runs.runs > 0 ? outcome.own_runs.runs : outcome.intervals.rows();
}

double joules_per_token(const Finalist& plan) {
  return plan.scope_energy / (plan.tokens_per_second * plan.time);
}

metrics::EnergyScope scope_of(const PlanOutcome& outcome) {
  return outcome.asked.objective.scope;
}

/// "energy at the site".
std::string energy_text(const PlanOutcome& outcome) {
  return fmt::format("energy {}", metrics::scope_text(scope_of(outcome)));
}

std::string against(const OtherPlan& other, const Finalist& first) {
  if (other.missing > Bytes()) return "–";
  const double longer = other.plan.time / first.time - 1;
  return fmt::format("{}{}", longer >= 0 ? "+" : "−", percent(std::abs(longer)));
}

/// How the job's file was read: what was assumed, and what was left out.
std::vector<std::string> readings_of(const spec::Job& base) {
  return {base.notes.begin() + 1, base.notes.end()};
}

// ---- tables

std::string why_not_first(const Finalist& plan, const Finalist& first, double probability,
                          Goal goal) {
  if (goal == Goal::throughput && metrics::is_tie(probability)) return "tie";
  return behind_text(plan, first, goal);
}

/// Decimals of kJ that give the least energy two digits, where three do.
int energy_digits(const std::vector<Finalist>& ranked) {
  int digits = 0;
  for (const Finalist& plan : ranked)
    for (int more = 1; more <= 3; ++more)
      if (plan.scope_energy / 1e3 < std::pow(10.0, 2 - more)) digits = std::max(digits, more);
  return digits;
}

DataTable ranking_table(const PlanOutcome& outcome, const std::vector<Finalist>& plans) {
  constexpr std::pair<const char*, const char*> energies[] = {
      {"energy_j", "GPU kJ/step"}, {"node_energy_j", "node kJ"}, {"site_energy_j", "site kJ"}};
  const auto [energy_key, energy_title] = energies[static_cast<size_t>(scope_of(outcome))];
  DataTable table{.name = "plans", .title = "Best plans"};
  table.columns = {{"place", "#"},
                   {.key = "plan", .title = "plan", .whole = true},
                   {"step_time_s", "step s", 1, 3},
                   {.key = "probability_slower",
                    .title = "P(slower) %",
                    .scale = 0.01,
                    .digits = 0,
                    .optional = 4},
                   {.key = "tokens_per_second_per_gpu", .title = "tok/s/GPU", .optional = 6},
                   {.key = "mfu", .title = "MFU %", .scale = 0.01, .digits = 1, .optional = 5},
                   {.key = "memory_gib", .title = "GiB", .digits = 1, .optional = 3},
                   {.key = "power_mean_w", .title = "mean W", .optional = 1},
                   {.key = "power_peak_w", .title = "peak W", .optional = 7},
                   {.key = "temperature_peak_c", .title = "peak °C", .digits = 1, .optional = 1},
                   {.key = energy_key,
                    .title = energy_title,
                    .scale = 1e3,
                    .digits = energy_digits(plans),
                    .optional = 8},
                   {.key = "front", .title = "front", .optional = 9},
                   {.key = "kind", .title = "shown as", .optional = 1},
                   {.key = "why", .title = "why not first", .optional = 2}};
  const double gpus = static_cast<double>(outcome.asked.base.world_size());
  const Goal goal = outcome.asked.objective.goal;
  if (goal == Goal::cost || goal == Goal::edp)
    table.columns.push_back({"objective",
                             goal == Goal::cost ? outcome.rates.currency + " a step" : "J s a step",
                             1, 3});
  for (const Finalist& plan : plans) {
    const bool is_first = table.rows.empty();
    const double probability = is_first ? 0.5 : slower(outcome, plan, plans[0]);
    std::vector<DataCell> row = {
        static_cast<int64_t>(table.rows.size() + 1),
        plan_text(plan),
        plan.time,
        is_first ? DataCell(std::string()) : DataCell(probability),
        plan.tokens_per_second / gpus,
        plan.mfu,
        plan.candidate.memory / unit::GiB,
        plan.power_mean,
        plan.power_peak,
        plan.hottest,
        plan.scope_energy,
        std::string(plan.on_front ? "*" : ""),
        plan.kind,
        is_first ? std::string() : why_not_first(plan, plans[0], probability, goal)};
    if (table.columns.back().key == "objective") row.emplace_back(plan.value);
    table.add(std::move(row));
  }
  return table;
}

/// Every plan that is not the first, by what it differs in.
DataTable others_table(const PlanOutcome& outcome) {
  const Finalist& first = first_of(outcome);
  const Goal goal = outcome.asked.objective.goal;
  DataTable table = text_table({{"instead of plan 1", Align::left},
                                {"plan", Align::left},
                                {"step (s)"},
                                {"against plan 1"},
                                {"memory (GiB)"},
                                {"why not", Align::left}});
  table.title = outcome.own ? "Your job, and plan 1 with one choice made differently"
                            : "Plan 1 with one choice made differently";
  const auto add = [&](const OtherPlan& other, const std::string& why) {
    if (!other.problem.empty()) return table.add({other.what, "–", "–", "–", "–", why});
    table.add({other.what, plan_text(other.plan),
               other.missing > Bytes() ? "–" : significant(other.plan.time, 4),
               against(other, first),
               fmt::format("{:.1f}", other.plan.candidate.memory / unit::GiB), why});
  };
  if (outcome.own) add(*outcome.own, why_not(*outcome.own, first, goal));
  for (const OtherPlan& other : outcome.others)
    add(other, why_not(other, first, goal));
  for (const Finalist& plan : outcome.ranking.refused)
    add({.what = "beyond a limit", .plan = plan}, plan.refused);
  return table;
}

// ---- figures

answers::Figure choices_figure(const PlanOutcome& outcome) {
  answers::ScatterChart chart{
      .title = "Speed against energy: " + plan_text(first_of(outcome)) + " is first",
      .x_unit = energy_text(outcome) + " (J/token)",
      .y_unit = "throughput (tokens/s)",
      .colour_unit = "hottest die (°C)",
      .points = {}};
  DataTable table = text_table({{"plan", Align::left},
                                {"tokens/s"},
                                {"J/token"},
                                {"hottest die (°C)"},
                                {"on the front of four"}});
  const auto add = [&](const Finalist& plan, const std::string& name, const std::string& label,
                       const std::string& job = "") {
    if (plan.scope_energy <= 0 || plan.tokens_per_second <= 0) return;
    const double joules = joules_per_token(plan);
    const std::string speed = significant(plan.tokens_per_second, 4);
    chart.points.push_back(
        {.x = joules,
         .y = plan.tokens_per_second,
         .colour = plan.hottest > 0 ? std::optional(plan.hottest) : std::nullopt,
         .job = job,
         .hint = fmt::format("{}: {} tokens/s at {} J/token, hottest die {} °C", name, speed,
                             significant(joules), significant(plan.hottest)),
         .label = label});
    table.add(
        {name, speed, significant(joules), significant(plan.hottest), plan.on_front ? "yes" : ""});
  };
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const std::string number = fmt::format("plan {}", i + 1);
    add(ranked[i], plan_text(ranked[i]), i == 0 ? number : "", number);
  }
  for (const OtherPlan& other : outcome.others)
    if (other.problem.empty()) add(other.plan, other.what, "");
  if (outcome.own) add(outcome.own->plan, your_job, your_job);
  for (answers::Point& point : chart.points)
    point.on_front = std::ranges::none_of(chart.points, [&](const answers::Point& p) {
      return p.x <= point.x && p.y >= point.y && (p.x < point.x || p.y > point.y);
    });
  return {.id = "choices",
          .title = chart.title,
          .note = "Better is up and to the left. Ringed: no plan is faster without more energy.",
          .chart = std::move(chart),
          .table = std::move(table)};
}

answers::Bar terms_bar(const OtherPlan& other) {
  answers::Bar bar{.label = other.what, .parts = {}, .hint = plan_text(other.plan)};
  if (other.missing > Bytes()) {
    bar.status = fmt::format("{} GiB short", significant(other.missing / unit::GiB));
    return bar;
  }
  for (size_t t = 0; t < term_count; ++t)
    bar.parts.push_back(
        {std::max(0.0, other.plan.terms[t]), styles[t],
         fmt::format("{}: {} s", name_of(static_cast<Term>(t)), significant(other.plan.terms[t]))});
  bar.text = significant(other.plan.time) + " s";
  if (other.missing_headroom > Bytes()) bar.text += " (too little memory free)";
  return bar;
}

answers::Figure terms_figure(const PlanOutcome& outcome) {
  answers::BarChart chart{.title = "Where a step of each plan goes",
                          .unit = "seconds of a step, on the stage that works longest",
                          .bars = {}};
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 0; i < std::min(outcome.asked.top, ranked.size()); ++i)
    chart.bars.push_back(terms_bar({fmt::format("plan {}", i + 1), ranked[i], {}}));
  const auto add = [&](const OtherPlan& other, bool begins_group) {
    chart.bars.push_back(terms_bar(other));
    chart.bars.back().begins_group = begins_group;
  };
  if (outcome.own) add(*outcome.own, true);
  for (const OtherPlan& other : outcome.others)
    if (other.problem.empty()) add(other, &other == &outcome.others.front());
  answers::Figure figure{.id = "terms",
                         .title = chart.title,
                         .note = "Below the best plans: plan 1 with one choice made differently.",
                         .chart = std::move(chart)};
  for (size_t t = 0; t < term_count; ++t)
    figure.legend.push_back({styles[t], std::string(name_of(static_cast<Term>(t)))});
  return figure;
}

// ---- sentences

std::string speed_text(const PlanOutcome& outcome, const Finalist& plan) {
  return fmt::format(
      "{} s a step, {} tokens/s a GPU", significant(plan.time),
      significant(plan.tokens_per_second / static_cast<double>(outcome.asked.base.world_size())));
}

/// Less of what was asked for than the job as it is: a share; below zero: more.
double gain_over(const OtherPlan& own, const Finalist& first) {
  return 1 - first.value / own.plan.value;
}

/// Whether a change is worth its trouble: more than the error between plans of one job; of energy
/// and money, one per cent.
bool is_worth_it(const PlanOutcome& outcome) {
  if (outcome.asked.objective.goal != Goal::throughput)
    return gain_over(*outcome.own, first_of(outcome)) >= 0.01;
  return outcome.own->plan.time > first_of(outcome).time &&
         !metrics::is_tie(slower_than_first(outcome, outcome.own->plan));
}

std::string goal_text(const PlanOutcome& outcome) {
  switch (outcome.asked.objective.goal) {
    case Goal::throughput:
      return "time a step";
    case Goal::energy:
      return energy_text(outcome) + " a step";
    case Goal::edp:
      return energy_text(outcome) + " times time a step";
    case Goal::cost:
      return "cost a step";
  }
  return "";
}

/// What another goal than time costs: against the fastest plan found, in time and in energy of a
/// wider scope than the goal's.
std::string price_text(const PlanOutcome& outcome) {
  constexpr double worth_telling = 5e-3;
  const Finalist& first = first_of(outcome);
  const Finalist* fastest = &first;
  for (const Finalist& plan : outcome.ranking.ranked)
    for (const Finalist* each : {&plan, plan.unlimited.empty() ? &plan : plan.unlimited.data()})
      if (each->time < fastest->time) fastest = each;
  const double longer = first.time / fastest->time - 1;
  if (outcome.asked.objective.goal == Goal::throughput || longer < worth_telling) return "";
  const spec::Job& base = outcome.asked.base;
  const auto site_energy = [&](const Finalist& plan) {
    return energy_in(metrics::EnergyScope::site, base, plan.energy, plan.node_power, plan.time);
  };
  const double more = base.environment.pue ? site_energy(first) / site_energy(*fastest) - 1 : 0;
  return fmt::format(
      " Its price: steps are {} longer{} than with the fastest plan found, {}.", percent(longer),
      scope_of(outcome) == metrics::EnergyScope::site || std::abs(more) < worth_telling
          ? ""
          : fmt::format(" and take {} {} energy at the site", percent(std::abs(more)),
                        more > 0 ? "more" : "less"),
      plan_text(*fastest));
}

std::string verdict_of(const PlanOutcome& outcome) {
  const Finalist& first = first_of(outcome);
  const std::string plan_1 =
      fmt::format("plan 1, {}: {}", plan_text(first), speed_text(outcome, first));
  if (outcome.asked.watch.stopped())
    return fmt::format(
        "The search was interrupted and concludes nothing; the best until then is {}. Search "
        "again to its end, or hold some dimensions with --fix.",
        plan_1);
  const std::string price = price_text(outcome);
  if (!outcome.own) return "Run " + plan_1 + "." + price;
  if (outcome.own->missing > Bytes())
    return fmt::format("Your job does not fit ({}). Run {}.{}", missing_text(*outcome.own), plan_1,
                       price);
  if (const std::string& broken = outcome.own->plan.refused; !broken.empty())
    return fmt::format("Your job breaks a limit: {}. Run {}.{}", broken, plan_1, price);
  const double gain = gain_over(*outcome.own, first);
  const std::string goal = goal_text(outcome);
  if (!is_worth_it(outcome))
    return fmt::format("Keep your job: no plan found is surely better ({}; {} {} {}).", plan_1,
                       percent(std::abs(gain)), gain < 0 ? "more" : "less", goal);
  return fmt::format("Change to {}; {} less {} than your job.{}", plan_1, percent(gain), goal,
                     price);
}

/// " 12 of the 30 best plans found are better; plan 1 is faster with a probability of 97 %."
std::string rank_text(const PlanOutcome& outcome) {
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
        percent(slower_than_first(outcome, own)));
  return fmt::format(
      " Of the {} best plans found {} {} better; plan 1 is faster with a probability of {}.",
      ranked.size(), better, better == 1 ? "is" : "are", percent(slower_than_first(outcome, own)));
}

/// What one or two changes of one's own job bring and cost.
std::string change_text(const PlanOutcome& outcome, const OtherPlan& change) {
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
std::string ties_text(const PlanOutcome& outcome) {
  if (outcome.asked.objective.goal != Goal::throughput) return "";
  std::vector<std::string> ties;
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 1; i < std::min(outcome.asked.top, ranked.size()); ++i)
    if (const double slower = slower_than_first(outcome, ranked[i]); metrics::is_tie(slower))
      ties.push_back(fmt::format("{} ({})", i + 1, percent(slower)));
  if (ties.empty()) return "";
  return fmt::format(
      "Too near to plan 1 for the error of predictions (a tie): plan{} {}, the probability that "
      "plan 1 is faster in brackets. Choose by memory, power or simplicity.",
      ties.size() == 1 ? "" : "s", fmt::join(ties, ", "));
}

std::string interval_sentence(const PlanOutcome& outcome) {
  const Finalist& first = first_of(outcome);
  const auto interval = step_time_interval(outcome, first);
  if (!interval) return "";
  return fmt::format("The interval is from {} measured jobs.{}", interval_rows(outcome),
                     std::min(outcome.asked.top, outcome.ranking.ranked.size()) < 2
                         ? ""
                         : " P(slower): probability that a plan really is slower than plan 1. "
                           "Front *: no plan found is better in time, energy, peak power and peak "
                           "temperature at once.");
}

std::string refused_text(const std::vector<Finalist>& refused) {
  if (refused.empty()) return "";
  return fmt::format(
      "Plans that break a limit are left out, or get a lower power limit. Without a lower one, for "
      "example, {} breaks it: {}.",
      plan_text(refused.front()), refused.front().refused);
}

std::string power_limit_text(const PlanOutcome& outcome) {
  const Finalist& first = first_of(outcome);
  if (!first.power_limit) return "";
  std::string change;
  if (!first.unlimited.empty())
    change = fmt::format("; with it steps are {} longer, for {} less {}",
                         percent(first.time / first.unlimited[0].time - 1),
                         percent(1 - first.value / first.unlimited[0].value), goal_text(outcome));
  return fmt::format(
      "Plan 1 {} a power limit of {:.0f} W on every GPU (nvidia-smi -pl, amd-smi set "
      "--power-cap){}; its job.toml has it, Megatron's and NeMo's files cannot.",
      change.empty() ? "needs" : "has", *first.power_limit / unit::W, change);
}

int64_t out_of_memory(const SearchCounts& counts) {
  return counts.out_of_memory + counts.exact_out_of_memory;
}

/// Plans that bounds ruled out, or that their layout's best stands for.
int64_t not_better(const SearchCounts& counts) {
  return counts.plans - out_of_memory(counts) - counts.simulated;
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

/// Beside a limit of power what the others then are.
std::string power_levels_text(const PlanOutcome& outcome) {
  const Limits& limits = outcome.asked.limits;
  if (!limits.device_power && !limits.node_power && !limits.total_power && !limits.site_power)
    return "";
  const spec::Job& base = outcome.asked.base;
  const Finalist& first = first_of(outcome);
  const double nodes = static_cast<double>(base.cluster.num_nodes);
  const double gpus = static_cast<double>(base.world_size());
  std::string text = fmt::format(
      "Plan 1 draws {} kW in its GPUs (the highest peak of one is {} W), {} kW at the supplies of "
      "all nodes ({} kW a node)",
      significant(gpus * first.power_mean / 1e3), significant(first.power_peak),
      significant(nodes * first.node_power / 1e3), significant(first.node_power / 1e3));
  if (base.environment.pue)
    text += fmt::format(" and {} kW at the site's meter (PUE {})",
                        significant(*base.environment.pue * nodes * first.node_power / 1e3),
                        significant(*base.environment.pue));
  return text + ".";
}

std::vector<Remark> remarks_of(const PlanOutcome& outcome) {
  const Finalist& first = first_of(outcome);
  std::vector<Remark> remarks;
  const auto add = [&](std::string text, Remark::Kind kind = Remark::Kind::finding) {
    if (!text.empty()) remarks.push_back({std::move(text), kind});
  };
  if (outcome.own) add(own_text(*outcome.own, first) + rank_text(outcome));
  for (const OtherPlan& change : outcome.changes)
    add(change_text(outcome, change));
  add(ties_text(outcome));
  add(interval_sentence(outcome));
  add(refused_text(outcome.ranking.refused));
  if (const auto note =
          sim::unlimited_die_note(outcome.asked.base.cluster.gpu, Celsius(first.hottest)))
    add("Plan 1: " + *note + ".", Remark::Kind::warning);
  add(power_limit_text(outcome));
  add(power_levels_text(outcome));
  if (const spec::OptimizerState& optimizer = outcome.asked.base.plan.optimizer;
      optimizer.gradient_sync_bytes < 4 && !outcome.asked.base.plan.lora)
    add(fmt::format(
            "Gradients are kept and summed in {} bytes (optimizer {}), which is numerics; "
            "--optimizer megatron_distributed_optim keeps them in fp32 and needs more memory.",
            optimizer.gradient_sync_bytes, optimizer.name),
        Remark::Kind::warning);
  if (outcome.bill)
    add("Bill of plan 1: " + metrics::bill_text(outcome.bill(first), outcome.rates) + "." +
        answers::likely_bill_text(outcome.bill(first), first.time,
                                  step_time_interval(outcome, first)));
  add(counts_text(outcome.ranking.counts, outcome.asked.limits, outcome.asked.watch.stopped()));
  for (std::string& note : readings_of(outcome.asked.base))
    add(std::move(note), Remark::Kind::note);
  return remarks;
}

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
        fmt::format("{} GiB of memory free, for the error of predictions "
                    "(--memory-headroom)",
                    significant(limits.headroom / unit::GiB)));
  if (words.empty()) return "no limit but memory was set";
  return fmt::format("limits kept: {}", fmt::join(words, ", "));
}

std::vector<answers::KeyFigure> key_figures(const PlanOutcome& outcome) {
  const Finalist& first = first_of(outcome);
  const spec::Job& base = outcome.asked.base;
  const double gpus = static_cast<double>(base.world_size());
  const auto likely = step_time_interval(outcome, first);
  std::vector<answers::KeyFigure> figures = {
      {"step of plan 1", significant(first.time) + " s",
       likely ? answers::interval_text(*likely) : ""},
      {"speed", significant(first.tokens_per_second / gpus) + " tokens/s",
       "a GPU; MFU " + percent(first.mfu)},
      {energy_text(outcome), significant(joules_per_token(first)) + " J/token",
       (scope_of(outcome) == metrics::EnergyScope::gpu
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

// ---- for programs

Json finalist_json(const spec::Job& job, const Finalist& plan) {
  Json terms;
  for (size_t t = 0; t < term_count; ++t)
    terms[std::string(name_of(static_cast<Term>(t)))] = plan.terms[t];
  const Layout& layout = plan.candidate.layout;
  const spec::Plan& choice = plan.candidate.plan;
  Json json = {
      {"plan", plan_text(plan)},
      {"kind", plan.kind},
      {"index", plan.candidate.index},
      {"tp", layout.tensor},
      {"pp", layout.pipeline},
      {"vpp", layout.chunks},
      {"cp", layout.context},
      {"ep", layout.expert},
      {"etp", layout.expert_tensor},
      {"dp", layout.data},
      {"mbs", layout.micro},
      {"sequence_parallel", choice.sequence_parallel},
      {"sharding", spec::enum_name(choice.sharding)},
      {"recompute", spec::enum_name(choice.recompute)},
      {"schedule", spec::enum_name(choice.schedule)},
      {"layers_per_stage", choice.layers_per_stage},
      {"overlap", overlap_text(choice)},
      {"step_time_s", plan.time},
      {"schedule_step_time_s", plan.candidate.step.time},
      {"tokens_per_second", plan.tokens_per_second},
      {"tokens_per_second_per_gpu", plan.tokens_per_second / static_cast<double>(job.world_size())},
      {"mfu", plan.mfu},
      {"energy_j", plan.energy},
      {"node_energy_j",
       energy_in(metrics::EnergyScope::node, job, plan.energy, plan.node_power, plan.time)},
      {"site_energy_j", job.environment.pue
                            ? Json(energy_in(metrics::EnergyScope::site, job, plan.energy,
                                             plan.node_power, plan.time))
                            : Json()},
      {"joules_per_token", joules_per_token(plan)},
      {"objective", plan.value},
      {"memory_bytes", plan.candidate.memory / unit::B},
      {"power_mean_w", plan.power_mean},
      {"power_peak_w", plan.power_peak},
      {"node_power_w", plan.node_power},
      {"temperature_peak_c", plan.hottest},
      {"throttled_share", plan.throttled},
      {"on_front", plan.on_front},
      {"terms_s", terms}};
  if (choice.recompute_layers) json["recompute_layers"] = *choice.recompute_layers;
  if (plan.power_limit) json["power_limit_w"] = *plan.power_limit / unit::W;
  if (!plan.refused.empty()) json["refused"] = plan.refused;
  return json;
}

Json counts_json(const SearchCounts& counts, bool stopped) {
  return {{"plans", counts.plans},
          {"layouts", counts.layouts},
          {"out_of_memory", out_of_memory(counts)},
          {stopped ? "not_looked_at_at_most" : "not_better", not_better(counts)},
          {"layouts_simulated", counts.layouts_simulated},
          {"simulated", counts.simulated},
          {"simulated_on_shared_links", counts.simulated_on_links}};
}

/// The plans of the table, and of the front where it is asked for.
Json plans_json(const PlanOutcome& outcome) {
  Json plans = Json::array();
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const Finalist& plan = ranked[i];
    if (i >= outcome.asked.top && !(outcome.asked.pareto && plan.on_front)) continue;
    Json one = finalist_json(outcome.asked.base, plan);
    if (const auto interval = step_time_interval(outcome, plan)) {
      one["step_time_low_s"] = interval->low;
      one["step_time_high_s"] = interval->high;
    }
    one["probability_slower"] = slower_than_first(outcome, plan);
    if (outcome.bill) one["bill"] = metrics::bill_json(outcome.bill(plan), outcome.rates);
    plans.push_back(std::move(one));
  }
  return plans;
}

Json numbers_of(const PlanOutcome& outcome) {
  const spec::Job& base = outcome.asked.base;
  Json json = {{"model", base.model.name},
               {"cluster", base.cluster.name},
               {"gpus", base.world_size()},
               {"global_batch_size", base.plan.global_batch_size},
               {"sequence_length", base.model.sequence_length},
               {"defaults", base.notes.front()},
               {"notes", readings_of(base)},
               {"objective", name_of(outcome.asked.objective.goal)},
               {"energy_scope", metrics::energy_scopes[static_cast<size_t>(scope_of(outcome))]},
               {"search", counts_json(outcome.ranking.counts, outcome.asked.watch.stopped())},
               {"interval_rows", interval_rows(outcome)},
               {"plans", plans_json(outcome)},
               {"refused", Json::array()}};
  if (outcome.asked.watch.stopped()) json["interrupted"] = true;
  for (const Finalist& plan : outcome.ranking.refused)
    json["refused"].push_back(finalist_json(base, plan));
  if (outcome.own) {
    json["own"] = finalist_json(base, outcome.own->plan);
    json["own"]["missing_memory_bytes"] = outcome.own->missing / unit::B;
    for (const OtherPlan& change : outcome.changes) {
      json["changes"].push_back(finalist_json(base, change.plan));
      json["changes"].back()["what"] = change.what;
    }
  }
  return json;
}

std::vector<Section> sections_of(const PlanOutcome& outcome) {
  const auto& ranked = outcome.ranking.ranked;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(outcome.asked.top, ranked.size()));
  std::vector<Section> sections = {
      {.figures = {choices_figure(outcome), terms_figure(outcome)}},
      {.id = "best",
       .title = "Best plans",
       .remarks = remarks_of(outcome),
       .tables = {ranking_table(outcome, {ranked.begin(), ranked.begin() + shown})}}};
  if (outcome.asked.pareto) {
    std::vector<Finalist> front;
    std::ranges::copy_if(ranked, std::back_inserter(front), &Finalist::on_front);
    DataTable table = ranking_table(outcome, front);
    table.name = "";
    table.title = "Nothing found is better in time, energy, peak power and peak temperature";
    sections.push_back({.id = "front", .title = "Front", .tables = {std::move(table)}});
  }
  if (!outcome.others.empty())
    sections.push_back(
        {.id = "why-not", .title = "Why not another", .tables = {others_table(outcome)}});
  return sections;
}

}  // namespace

std::optional<OtherPlan> own_plan(const PlanQuestion& asked) {
  const spec::Plan& plan = asked.base.plan;
  const bool overlaps = plan.overlap_tensor || plan.overlap_gradient || plan.overlap_parameter ||
                        plan.overlap_pipeline || plan.overlap_expert;
  const bool is_told = overlaps || plan.model_parallel_size() > 1 ||
                       plan.expert_parallel_size > 1 || plan.micro_batch_size > 1 ||
                       plan.sharding == spec::Sharding::parameters ||
                       plan.recompute != spec::Recompute::none;
  if (!is_told || spec::has_errors(spec::diagnose(asked.base))) return std::nullopt;
  Limits limits = asked.limits;
  limits.headroom = {};  // it may use all of the memory
  return judged_plan(your_job, asked.base, asked.objective, limits);
}

answers::Document plan_answer(const PlanOutcome& outcome) {
  const spec::Job& base = outcome.asked.base;
  return {
      .kind = "plan",
      .title = fmt::format("{}{}, batch {}", answers::group_label(base), answers::task_label(base),
                           base.plan.global_batch_size),
      .facts = fmt::format("All plans: {}; simulated to thermal steady state; objective {}; {}{}.",
                           base.notes.front(), name_of(outcome.asked.objective.goal),
                           limits_text(outcome.asked.limits), answers::network_label(base)),
      .verdict = verdict_of(outcome),
      .key_figures = key_figures(outcome),
      .sections = sections_of(outcome),
      .numbers = numbers_of(outcome)};
}

namespace {

constexpr size_t fewest_finalists = 8;

/// Plans that are thrifty alone widen the front.
Found thrifty_plans(const Space& space, const PlanQuestion& asked, const SearchOptions& options) {
  if (!asked.pareto || asked.objective.goal == Goal::energy) return {};
  Objective thrifty = asked.objective;
  thrifty.goal = Goal::energy;
  return search(space, thrifty, asked.limits, options);
}

Result<Ranking> require_plans(Ranking ranking, const PlanQuestion& asked) {
  if (!ranking.ranked.empty() || asked.watch.stopped()) return ranking;
  if (!ranking.refused.empty()) {
    // Of one whose power limit was lowered, where that was tried.
    const auto nearest = std::max_element(
        ranking.refused.begin(), ranking.refused.end(), [](const Finalist& a, const Finalist& b) {
          return a.power_limit.has_value() < b.power_limit.has_value();
        });
    return error(fmt::format(
        "none of the {} best plans keeps within the limits ({}, of {}); raise the limit{}",
        ranking.refused.size(), nearest->refused, plan_text(*nearest),
        ranking.refused.size() < most_finalists || nearest->power_limit
            ? ""
            : fmt::format(", or search further (a higher --top than {})", asked.top)));
  }
  const bool has_headroom = asked.limits.headroom > Bytes();
  return error(fmt::format(
      "none of {} plans fits in memory (states, activations and buffers of every one are larger "
      "than a GPU's memory{}); use more nodes{}",
      ranking.counts.plans,
      has_headroom ? fmt::format(" less a headroom of {} GiB",
                                 significant(asked.limits.headroom / unit::GiB))
                   : "",
      has_headroom ? ", or less --memory-headroom where little is missing" : ""));
}

}  // namespace

Result<Ranking> find_plans(const Space& space, const PlanQuestion& asked) {
  FinalOptions options;
  options.top = asked.top;
  options.kinds = asked.top > 1;
  options.search.threads = asked.threads;
  options.search.keep = std::max(fewest_finalists, asked.top + asked.top / 2);
  options.search.watch = asked.watch;
  return require_plans(rank_plans(space, asked.objective, asked.limits, options,
                                  thrifty_plans(space, asked, options.search).best),
                       asked);
}

}  // namespace triplepoint::search
