// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/trace/execution_trace/execution_trace.h"

namespace triplepoint::trace {

/// An execution trace among the files of a profiler.
struct Companion {
  std::string name;  // of its file
  ExecutionTrace trace;
};

/// Joins each with the spans of its rank: the one its name says, else by the numeric order of the
/// names, if there are as many as ranks. What was joined is a fact of the trace; what could not be
/// is a reason among its skipped ones.
void join_companions(std::vector<Companion>, Trace&);

}  // namespace triplepoint::trace
