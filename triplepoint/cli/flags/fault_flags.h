// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/cli/command.h"

namespace triplepoint::cli {

/// Adds faults told as text to those of the job.
Result<void> add_faults(spec::Job& job, const std::vector<std::string>& faults);

/// `simulate --fault`: what goes wrong while the job runs.
class FaultFlags {
 public:
  Arguments arguments();
  /// Adds them to those of the job. `over_time`: a transient is asked for; in a steady state only
  /// faults that last have an effect, and others are refused.
  Result<void> apply(spec::Job& job, bool over_time) const;

 private:
  std::vector<std::string> faults_;
};

}  // namespace triplepoint::cli
