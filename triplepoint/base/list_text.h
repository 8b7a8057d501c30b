// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint {

/// A whole number, all of the text.
Result<int64_t> parse_count(std::string_view text);
/// "a,b,c" without the commas; empty pieces are errors.
Result<std::vector<std::string>> split_list(std::string_view text);

}  // namespace triplepoint
