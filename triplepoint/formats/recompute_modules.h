// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {

/// Megatron-Core's recompute_modules; what is no module of it is noted as a diagnosis.
std::vector<spec::RecomputeModule> read_recompute_modules(Settings&, std::string_view key);

std::vector<std::string> recompute_module_names(const spec::Plan&);

}  // namespace triplepoint::formats
