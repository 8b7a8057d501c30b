// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {

/// Runs a launch script with bash inside of bubblewrap: no network, the system and the script's
/// folder read-only, an empty home, limited time, processes and memory. torchrun, python, srun,
/// mpirun, deepspeed, accelerate and their like are stand-ins that write down their arguments.
/// Fails in one sentence where bubblewrap is missing or user namespaces are blocked.
Result<std::vector<Launch>> run_script(const std::string& path, const ScriptWorld& world,
                                       Seconds limit = 20 * unit::s);

}  // namespace triplepoint::formats
