// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

// PyTorch execution traces (ExecutionTraceObserver): which operators ran, in which order, on what.
// They hold no times; joined with the Kineto trace of the same steps they tell sizes and groups of
// collectives, and work of matrix products, that old Kineto traces leave out.

/// One operator call.
struct ExecutionNode {
  int64_t id = -1, parent = -1;
  int64_t record_function_id = -1;  // rf_id: ascending in the order of begin
  int64_t sequence = -1;
  int32_t thread = -1;
  std::string name;
  Flops flops;  // of matrix products, by their shapes; 0 for all others

  // record_param_comms and c10d operators only
  std::string collective;  // as PyTorch spells it: "allreduce", "all_to_allv"; empty: none
  int32_t group = -1;      // index into ExecutionTrace::groups
  int64_t in_elements = -1, out_elements = -1;
  int element_bytes = 0;
};

struct ExecutionTrace {
  std::string schema;  // "1.0.1", "1.1.0-chakra.0.0.4"
  int64_t process = -1;
  std::vector<ExecutionNode> nodes;
  std::vector<run::Communicator> groups;
  Skipped skipped;
};

/// Schemas 1.0.x (flat nodes) to 1.1.x-chakra (attributes). An error if it is none.
Result<ExecutionTrace> parse_execution_trace(Input&);

/// What joining found.
struct JoinCounts {
  int64_t nodes = 0;        // that have their span
  int64_t without = 0;      // operators of the execution trace that the timeline has not
  int64_t collectives = 0;  // device spans that got their size or group
};

/// Adds what the execution trace of `rank` knows to the spans of that rank.
///
/// Operators are matched thread by thread, by name and order: both traces hold them in the order of
/// begin. A name that occurs more often in one of the two is left out. Bytes are those of the whole
/// array, as nccl-tests count them: out_elements for an all-gather, else in_elements.
JoinCounts join(const ExecutionTrace&, int32_t rank, run::Timeline&);

bool looks_like_execution_trace(std::string_view head);
/// An error that says what to give it together with: it has no times.
Result<Trace> read_execution_trace(Input&, const ReadOptions&);

}  // namespace triplepoint::trace
