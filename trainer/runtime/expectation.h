// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "triplepoint/spec/op.h"

#include "triplepoint/workload/work_graph.h"

#include "trainer/memory_ledger.h"
#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {

/// Bytes (payload, S of nccl-tests) by [group][collective].
using TrafficTable = std::array<std::array<double, spec::collective_count>, spec::group_kind_count>;

/// What `workload` says that one rank of a stage moves in one step; groups of one rank left out.
TrafficTable expected_traffic(const workload::WorkGraph&, size_t stage);

/// What this rank has moved so far.
TrafficTable measured_traffic(const RankGroups&);

/// The memory model's bytes of a stage by MemoryTerm.
std::array<double, memory_term_count> expected_memory(const workload::WorkGraph&, size_t stage);

}  // namespace triplepoint::trainer
