// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/spec/model.h"
#include "triplepoint/spec/plan.h"

namespace triplepoint::spec {

/// Where Megatron-Core refuses --overlap-moe-expert-parallel-comm, its condition that this plan
/// breaks, as in "without full recompute"; empty where it starts.
std::string_view broken_condition_of_expert_overlap(const Model&, const Plan&);

}  // namespace triplepoint::spec
