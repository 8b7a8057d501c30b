// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace triplepoint::tui {

/// One character per value, higher for larger ones, from the lowest to the highest of them; a space
/// where there is none. Eighths of blocks, or ASCII where the terminal knows nothing else.
std::string sparkline(const std::vector<std::optional<double>>& values, bool unicode);

}  // namespace triplepoint::tui
