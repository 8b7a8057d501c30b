// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::telemetry {

/// The name of this node, as its launcher or the kernel has it.
std::string this_host(const LaunchEnvironment&);
/// Unless it is known that all ranks of the launch are on this node, there are other nodes.
bool is_one_of_many_nodes(const LaunchEnvironment&);
/// "run-slurm-17.0.run", the same on all nodes; "run-20260102-030405.run" without a launcher.
std::string default_recording_name(const LaunchEnvironment&);

/// What a recorded command needs in its environment: where its marks go, and libraries of ours.
std::map<std::string, std::string> recording_variables(const Path& marks);

}  // namespace triplepoint::telemetry
