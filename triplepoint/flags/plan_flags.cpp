// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/plan_flags.h"

#include "triplepoint/flags/bind.h"

namespace triplepoint::flags {

Arguments PlanFlags::ranking() {
  return Arguments()
      .group("Output")
      .flag("--top", "N", "number of plans to show, each with another layout (default 5)",
            into_count(top_, 1))
      .toggle("--pareto", "show the Pareto front of time, energy, peak power and peak temperature",
              pareto_);
}

Result<study::PlanQuestion> PlanFlags::question(const spec::Library& library, const spec::Job& base,
                                                const metrics::BillRates& rates) const {
  if (base.task != spec::Task::pretrain && base.task != spec::Task::lora)
    return error("plan supports only training (the job has another task); leave its task out");
  if (base.plan.sends && base.plan.sends->microbatches > 1)
    return error(
        "plan does not search with sends of several microbatches (its bounds are those of single "
        "sends); leave out sends.microbatches, and simulate the plan "
        "with them");
  TPT_TRY(spec::require_valid(search::without_layout(base)));
  return study::PlanQuestion{.base = base,
                             .objective = search_.objective(base, rates),
                             .limits = search_.limits(base),
                             .pareto = pareto_,
                             .top = static_cast<size_t>(top_),
                             .threads = threads_.count()};
}

}  // namespace triplepoint::flags
