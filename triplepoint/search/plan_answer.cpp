// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/search/plan_outcome.h"
#include "triplepoint/search/plan_parts.h"
#include "triplepoint/search/search.h"

namespace triplepoint::search {
namespace {

Json finalist_json(const spec::Job& job, const Finalist& plan) {
  Json terms;
  for (size_t t = 0; t < term_count; ++t)
    terms[std::string(name_of(static_cast<Term>(t)))] = plan.terms[t];
  const Layout& layout = plan.candidate.layout;
  const spec::Plan& choice = plan.candidate.plan;
  Json json = {{"plan", plan_text(plan)},
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
               {"tokens_per_second_per_gpu", plan.tokens_per_second / as_real(job.world_size())},
               {"mfu", plan.mfu},
               {"energy_j", plan.energy},
               {"node_energy_j", energy_in(metrics::EnergyScope::node, job, plan.energy,
                                           plan.node_power, plan.time)},
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
    if (const auto interval = outcome.step_time(plan)) {
      one["step_time_low_s"] = interval->low;
      one["step_time_high_s"] = interval->high;
    }
    one["probability_slower"] = outcome.slower_than_first(plan);
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
               {"notes", assumptions_of(base)},
               {"objective", name_of(outcome.asked.objective.goal)},
               {"energy_scope", metrics::energy_scopes[as_size(outcome.asked.objective.scope)]},
               {"search", counts_json(outcome.ranking.counts, outcome.asked.watch.stopped())},
               {"interval_rows", outcome.interval_rows()},
               {"plans", plans_json(outcome)},
               {"refused", Json::array()}};
  if (outcome.asked.watch.stopped()) json["interrupted"] = true;
  if (const auto& next = outcome.own_runs.next)
    json["measure_next"] = {{"on", next->on},
                            {"gpus", next->gpus},
                            {"step_time_s", next->step_time_s},
                            {"narrowing", next->narrowing}};
  for (const Finalist& plan : outcome.ranking.refused)
    json["refused"].push_back(finalist_json(base, plan));
  if (!outcome.explained.empty()) json["explain"] = table_json(explained_table(outcome));
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

std::vector<answers::Section> sections_of(const PlanOutcome& outcome) {
  const auto& ranked = outcome.ranking.ranked;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(outcome.asked.top, ranked.size()));
  DataTable best = ranking_table(outcome, {ranked.begin(), ranked.begin() + shown});
  for (std::size_t i = 1; i <= best.rows.size(); ++i)
    best.jobs[i - 1] = fmt::format("plan {}", i);
  std::vector<answers::Section> sections = {
      {.figures = {choices_figure(outcome), terms_figure(outcome)}},
      {.id = "best",
       .title = "Best plans",
       .remarks = remarks_of(outcome),
       .tables = {std::move(best)}}};
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
  if (!outcome.explained.empty())
    sections.push_back({.id = "explain",
                        .title = "Two plans, term by term, on the stage that works longest",
                        .tables = {explained_table(outcome)}});
  return sections;
}

}  // namespace

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
      .key_figures = key_figures_of(outcome),
      .sections = sections_of(outcome),
      .numbers = numbers_of(outcome)};
}

}  // namespace triplepoint::search
