// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace triplepoint {

/// Keeps keys in the order they were written. Headers include this file; only .cpp files include
/// json.h.
using Json = nlohmann::ordered_json;

}  // namespace triplepoint
