// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace triplepoint::tui {

/// Smallest and largest of the finite values; nothing where there is none.
std::optional<std::pair<double, double>> range_of(const std::vector<std::optional<double>>& values);

/// One character per value, higher for larger ones, from the lowest to the highest of them; a space
/// where there is none. Eighths of blocks, or ASCII where the terminal knows nothing else.
std::string sparkline(const std::vector<std::optional<double>>& values, bool unicode);

}  // namespace triplepoint::tui
