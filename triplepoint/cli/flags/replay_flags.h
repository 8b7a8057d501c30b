// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/sim/trace_what_if.h"

namespace triplepoint::cli {

/// `simulate --replay`: a measured step is simulated again with one thing changed.
class ReplayFlags {
 public:
  Arguments arguments();
  bool given() const { return !files_.empty(); }
  /// An error if only flags that need --replay were given.
  Result<void> check() const;
  /// Reads the traces, simulates them on `cluster` (none: where they were measured), prints the
  /// comparison, and gives the run that it would be.
  Result<run::Run> run(tui::Console& console, bool as_json,
                       const std::optional<std::string>& cluster) const;

 private:
  Result<sim::TraceScaling> scaling(const std::optional<std::string>& cluster) const;
  Result<double> insensitive_share(const spec::Library&) const;

  std::vector<std::string> files_;
  std::optional<std::string> measured_on_;
  std::optional<double> clock_, host_;
};

}  // namespace triplepoint::cli
