// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/answers/document.h"
#include "triplepoint/search/plan_outcome.h"

// What the answer of a search for plans is made of.
namespace triplepoint::search {

inline double joules_per_token(const Finalist& plan) {
  return plan.scope_energy / (plan.tokens_per_second * plan.time);
}
/// "energy at the site".
std::string plan_energy_text(const PlanOutcome&);
/// "+3.1 %" of step time.
std::string against(const OtherPlan&, const Finalist& first);
int64_t out_of_memory(const SearchCounts&);
/// Plans that bounds ruled out, or that their layout's best stands for.
int64_t not_better(const SearchCounts&);

DataTable ranking_table(const PlanOutcome&, const std::vector<Finalist>& plans);
/// Every plan that is not the first, by what it differs in.
DataTable others_table(const PlanOutcome&);
/// The explained two side by side, term by term, largest difference first.
DataTable explained_table(const PlanOutcome&);
answers::Figure choices_figure(const PlanOutcome&);
answers::Figure terms_figure(const PlanOutcome&);
std::string limits_text(const Limits&);
std::string verdict_of(const PlanOutcome&);
std::vector<answers::Remark> remarks_of(const PlanOutcome&);
std::vector<answers::KeyFigure> key_figures_of(const PlanOutcome&);

}  // namespace triplepoint::search
