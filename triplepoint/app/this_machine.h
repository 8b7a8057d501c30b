// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/files.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/calibrate/machine/this_machine.h"

namespace triplepoint::app {

/// triplepoint-machine, which measures; an error where it is not there.
Result<Path> find_machine_program();

/// Measures this machine, unless `measured` holds what triplepoint-machine has written before,
/// fits, and writes cluster.toml, stack.toml and the study laptop.toml on them into a folder.
Result<calibrate::MachineFit> describe_this_machine(const Path& folder,
                                                    const std::optional<Path>& measured,
                                                    int64_t ranks, const spec::Library&);

/// How well the fit agrees with what was measured.
answers::Document machine_document(const calibrate::MachineFit&, const std::string& folder);

}  // namespace triplepoint::app
