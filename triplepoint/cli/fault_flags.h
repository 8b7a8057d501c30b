// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/console.h"

namespace triplepoint::cli {

/// `simulate --fault`: what goes wrong while the job runs.
class FaultFlags {
 public:
  std::vector<Argument> arguments();
  /// Adds them to those of the job. `over_time`: a transient is asked for; in a steady state only
  /// faults that last have an effect, and others are refused.
  Result<void> apply(spec::Job& job, bool over_time) const;

 private:
  std::vector<std::string> faults_;
};

/// What faults did to a job, each before, while and after it was on, and GPU by GPU. `without`: the
/// same job without them, for a steady state; null for a transient, which tells itself.
void print_faults(Console& console, const run::Run& run, const run::Run* without);
Json faults_json(const run::Run& run, const run::Run* without);

}  // namespace triplepoint::cli
