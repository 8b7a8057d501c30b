// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::formats {

/// Does Megatron-LM know this argument (without --), and does it change neither work, memory,
/// layout, precision nor overlap?
bool is_irrelevant_megatron_argument(std::string_view name);

/// The arguments of that table which are named in full, for suggestions.
std::vector<std::string> irrelevant_megatron_arguments();

}  // namespace triplepoint::formats
