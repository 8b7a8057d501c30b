// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::formats {

/// Does NeMo know this key, and does it change neither work, memory, layout, precision nor overlap?
bool is_irrelevant_nemo_key(std::string_view key);

/// The keys of that table which name one key, for suggestions.
std::vector<std::string> irrelevant_nemo_keys();

}  // namespace triplepoint::formats
