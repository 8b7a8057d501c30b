// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/sim/trace_what_if.h"

namespace triplepoint::app {

/// A measured step with something changed: the comparison, and the run that it would be.
struct TraceComparison {
  std::string headline;
  DataTable table;
  std::vector<std::string> remarks;
  Json json;
  run::Run run;
};
/// `measured_on`: the GPU that the traces are said to be of; absent: nothing was said.
Result<TraceComparison> trace_what_if(const std::vector<std::string>& traces,
                                      const sim::TraceScaling&,
                                      const std::optional<std::string>& measured_on);

}  // namespace triplepoint::app
