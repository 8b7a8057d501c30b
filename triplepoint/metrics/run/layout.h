// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::metrics {

// What follows from a job's plan. Absent where it does not divide: results are shown of invalid
// jobs as well.

std::optional<int64_t> data_parallel_size(const spec::Job&);
std::optional<int64_t> num_microbatches(const spec::Job&);

/// Nodes that one expert-parallel group spans: 1 if its all-to-all stays inside a node.
std::optional<int64_t> expert_group_nodes(const spec::Job&);

/// Pipeline stage of each of the job's ranks; empty where the plan does not lay out.
std::vector<int32_t> stages_of_ranks(const spec::Job&);

}  // namespace triplepoint::metrics
