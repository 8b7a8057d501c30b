// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

namespace triplepoint {

/// `name` is used in messages, with line and column. Deeper than 512 or a key twice is an error.
Result<Json> parse_json(std::string_view text, std::string_view name);

/// Numbers in their shortest exact form, not-a-number as null, broken UTF-8 replaced. No line break
/// at the end.
std::string json_text(const Json& json, int indent = 2);

}  // namespace triplepoint
