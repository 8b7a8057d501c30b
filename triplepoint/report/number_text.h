// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace triplepoint::report {

/// So many significant digits, never in scientific form, thousands apart: 24.9, 1,465, 0.0312.
std::string significant(double value, int digits = 3);
/// The same; an en dash for an absent number.
std::string significant(const std::optional<double>& value, int digits = 3);
/// "12 %" of 0.123.
std::string percent(double share);
/// "3.2 times" of 3.2, "21 %" of 1.21: how much more, in the words one would use.
std::string times_or_percent_more(double ratio);

}  // namespace triplepoint::report
