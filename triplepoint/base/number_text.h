// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace triplepoint {

/// `digits` significant digits, never in scientific form, thousands apart: 24.9, 1,465, 0.0312.
std::string significant(double value, int digits = 3);
/// The same; an en dash for an absent number.
std::string significant(const std::optional<double>& value, int digits = 3);
/// All digits of a whole number, thousands apart: 1,576,964.
std::string whole(int64_t value);
/// "12 %" of 0.123.
std::string percent(double share);
/// "3.2 times" of 3.2, "21 %" of 1.21: how much more, in the words one would use.
std::string times_or_percent_more(double ratio);

/// The time that a column of nanoseconds is printed in, by the longest of them: one unit a table.
struct TimeUnit {
  const char* name;
  double ns;
};
TimeUnit time_unit(int64_t longest_ns);
/// Nanoseconds in a unit, to a tenth of a microsecond, thousands apart: "18,749.0" us, "132.041"
/// ms.
std::string in_unit(double ns, const TimeUnit& unit);

}  // namespace triplepoint
