// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/expert_overlap.h"

namespace triplepoint::spec {

std::string_view broken_condition_of_expert_overlap(const Model& model, const Plan& plan) {
  if (!model.moe || plan.expert_parallel_size == 1) return "with expert parallelism";
  if (plan.pipeline_parallel_size > 1 && plan.virtual_pipeline_size == 1)
    return "with model chunks where there are pipeline stages";
  if (plan.recompute == Recompute::full) return "without full recompute";
  if (plan.recomputes(RecomputeModule::moe)) return "without recompute of the experts";
  if (plan.precision == Precision::fp32) return "in 16 bits";
  if (model.prediction_depths() > 1) return "with at most one predicted depth";
  return "";
}

}  // namespace triplepoint::spec
