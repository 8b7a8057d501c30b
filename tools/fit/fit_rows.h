// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/op.h"

namespace triplepoint::fit {

/// One measured kernel or collective.
struct Row {
  spec::Op op;
  int64_t ranks = 1;  // collectives
  Seconds measured;
  double power_share = 0;  // mean power over the limit; 0: not logged
  uint64_t shape = 0;  // equal for equal shapes: what a fold of the cross-validation keeps together
};

/// Rows of ../shared/data/gemm_power.csv: `system` and `dtype` as spelled there.
Result<std::vector<Row>> read_gemms(const std::string& path, const std::string& system,
                                    const std::string& dtype);
/// Rows of ../shared/data/attention_power.csv.
Result<std::vector<Row>> read_attentions(const std::string& path, const std::string& system);
/// Rows of ../shared/data/nccl.csv.
Result<std::vector<Row>> read_collectives(const std::string& path, const std::string& system,
                                          const std::string& version);

}  // namespace triplepoint::fit
