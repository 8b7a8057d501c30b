// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/plan_flags.h"

#include <utility>

#include "triplepoint/flags/bind.h"

namespace triplepoint::flags {

Arguments SearchFlags::arguments() {
  return Arguments()
      .group("Objective and constraints")
      .flag("--objective", "GOAL",
            "quantity to optimize: time, energy of the --scope, energy x time, or cost (default "
            "throughput)",
            into(goal_), {.choices = {"throughput", "energy", "edp", "cost"}})
      .flag("--max-temperature", "TEMP", "limit of the hottest die, as in \"80 C\"",
            into_quantity(limits_.temperature))
      .flag("--max-power", "POWER",
            "limit of the whole --scope, as in \"1.2 MW\" of a site; or peak of a GPU, mean of a "
            "node, of all nodes and of the site: \"gpu=700 W,node=8 kW,cluster=1 MW,site=1.3 MW\"",
            [this](std::string_view text) { return search::parse_power(text, limits_); })
      .flag("--memory-headroom", "SIZE",
            "memory that stays free on each GPU, as in 4GB or 5% (default: by "
            "the measured error of predicted memory; 0% switches it off)",
            into(headroom_, search::parse_headroom))
      .flag("--fix", "LIST",
            "fixed dimensions, as in tp=8,mbs=1|2: tp pp vpp ep etp cp dp mbs sharding "
            "sharding-group recompute recompute-layers recompute-modules schedule sp overlap-tp "
            "overlap-dp overlap-pp overlap-ep uneven rank-order power-cap",
            [this](std::string_view text) -> Result<void> {
              fix(text);
              return {};
            },
            {.repeats = true})
      .flag("--space", "REACH",
            "launchable: plans that Megatron and NeMo can start; everything: all modelled "
            "plans (default launchable)",
            into(reach_), {.choices = {"launchable", "everything"}});
}

void SearchFlags::fix(std::string_view list) {
  fix_ += (fix_.empty() ? "" : ",") + std::string(list);
}

Result<search::Space> SearchFlags::space(const spec::Job& base) const {
  const auto reach = reach_ == "everything" ? search::Reach::everything : search::Reach::launchable;
  search::Space space(base, reach, TPT_TRY(search::parse_fixed(fix_)));
  if (space.size() > 0) return space;
  if (fix_.empty())
    return error(
        "no layout splits {} over {} GPUs at batch {} (data parallelism divides the batch, the "
        "others heads and layers); take another number of nodes, or change the batch",
        base.model.name, base.world_size(), base.plan.global_batch_size);
  return error(
      "no plan is left of the space (--fix {} and the sizes of {} on {} GPUs at batch {} "
      "exclude each other); fix less, or change the batch",
      fix_, base.model.name, base.world_size(), base.plan.global_batch_size);
}

search::Objective SearchFlags::objective(const spec::Job& base, const metrics::BillRates& rates,
                                         metrics::EnergyScope scope) const {
  return search::objective_of(*search::goal_named(goal_), base, rates, scope);
}

search::Limits SearchFlags::limits(const spec::Job& base, metrics::EnergyScope scope,
                                   double margin) const {
  search::Limits limits = limits_;
  if (const auto power = std::exchange(limits.scope_power, {}))
    (scope == metrics::EnergyScope::gpu    ? limits.device_power
     : scope == metrics::EnergyScope::node ? limits.total_power
                                           : limits.site_power) = power;
  limits.headroom = headroom_.value_or(search::Headroom{Bytes(), margin})
                        .of(base.cluster.gpu.memory.value_or(Bytes()));
  return limits;
}

Arguments PlanFlags::ranking() {
  return Arguments()
      .group("Output")
      .flag("--top", "N",
            "number of plans to show, of different layouts where there are (default 5)",
            into_count(top_, 1))
      .toggle("--pareto", "show the Pareto front of time, energy, peak power and peak temperature",
              pareto_);
}

Result<search::PlanQuestion> PlanFlags::question(spec::Job base, const metrics::BillRates& rates,
                                                 double memory_margin) const {
  TPT_TRY(require_plannable(base, "plan"));
  TPT_TRY(bill_.energy().count_energy(base, rates.pue));
  TPT_TRY(spec::require_valid(search::without_layout(base)));
  const metrics::EnergyScope scope = bill_.energy().scope();
  return search::PlanQuestion{.base = base,
                              .objective = search_.objective(base, rates, scope),
                              .limits = search_.limits(base, scope, memory_margin),
                              .pareto = pareto_,
                              .top = as_size(top_),
                              .threads = threads_.count()};
}

Result<search::PlanOutcome> PlanFlags::outcome(const spec::Library& library, spec::Job base,
                                               const Watch& watch,
                                               std::optional<size_t> top) const {
  auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
  const metrics::BillRates rates = TPT_TRY(bill_.rates(library, base.environment));
  search::PlanQuestion asked =
      TPT_TRY(question(std::move(base), rates, intervals.memory_headroom()));
  asked.top = top.value_or(asked.top);
  asked.watch = watch;
  search::PlanOutcome outcome{
      .asked = std::move(asked), .intervals = std::move(intervals), .rates = rates};
  const search::Space space = TPT_TRY(search_.space(outcome.asked.base));
  outcome.ranking = TPT_TRY(search::find_plans(space, outcome.asked));
  if (bill_.given())
    outcome.bill = [this, job = outcome.asked.base, rates](const search::Finalist& plan) {
      return bill_.bill(job, rates, plan.time * unit::s, plan.power_mean * unit::W,
                        plan.node_power * unit::W);
    };
  return outcome;
}

}  // namespace triplepoint::flags
