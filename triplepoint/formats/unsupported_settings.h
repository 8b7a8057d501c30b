// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::formats {

/// Settings that no launch file has: the room, the order of devices, experts' imbalance.
std::vector<std::string> unsupported_by_launch_files(const spec::Job& job);

/// "# not in this file: ..." for each.
std::string comments_of(const std::vector<std::string>& unsupported);

/// Do all stages but the first and the last hold equally many layers?
bool has_even_inner_stages(const std::vector<int64_t>& layers);

/// Leading dense layers as Megatron writes them: "([0]*3+[1]*58)".
std::string moe_pattern(const spec::Model& model);

}  // namespace triplepoint::formats
