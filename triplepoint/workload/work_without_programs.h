// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/workload/work_graph.h"

namespace triplepoint::workload {

/// A job's work but for what grows with the number of microbatches (programs, memory) and what no
/// step time needs (totals): for whoever looks at many plans and keeps programs himself.
WorkGraph build_work_without_programs(const spec::Job&);

}  // namespace triplepoint::workload
