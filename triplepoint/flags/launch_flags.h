// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/flags/arguments.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::flags {

/// How the files of other tools are read: what does not matter in them, and whether scripts run.
class LaunchFlags {
 public:
  Arguments arguments();
  /// Puts what was said into the hints of an import.
  Result<void> add_to(formats::ImportHints& hints) const;

 private:
  std::vector<std::string> ignored_, arguments_, environment_;
  bool run_script_ = false;
};

}  // namespace triplepoint::flags
