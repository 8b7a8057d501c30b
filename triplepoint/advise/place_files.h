// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::advise {

/// A shell file that sets CUDA_VISIBLE_DEVICES by the node's place in the host file.
std::string devices_script(const spec::Job&);
/// A line per node, in the order in which ranks fill them: "node2 slots=8".
std::string host_file(const spec::Job&, const std::vector<std::string>& hosts);

}  // namespace triplepoint::advise
