// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/output_flags.h"

namespace triplepoint::cli {

/// `calibrate --this-machine`: measures (triplepoint-machine), fits, and writes a folder with the
/// measurement, a cluster and a stack.
class ThisMachineFlags {
 public:
  Arguments arguments();
  bool given() const { return given_; }
  Result<int> run(tui::Console&, const std::string& folder, const FormatFlag&);

 private:
  bool given_ = false;
  std::optional<std::string> measured_;
  std::optional<int64_t> nodes_, ranks_;
};

}  // namespace triplepoint::cli
