// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace triplepoint {

/// "triplepoint 0.1.0"
std::string program_version();

}  // namespace triplepoint
