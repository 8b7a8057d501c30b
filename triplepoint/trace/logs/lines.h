// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

/// Calls visit(line) for every line of a log: ended by \n or \r, without its colours. Lines longer
/// than a mebibyte are cut into pieces. False at the end if the last line had no end.
Result<bool> for_each_line(Input&, const std::function<void(std::string_view)>& visit);

/// Without the escape sequences that colour a terminal.
std::string without_colours(std::string_view line);

/// The number that a text begins with, with or without commas between thousands.
std::optional<double> leading_number(std::string_view text);

/// The number behind the first `key` of the text, with a colon, an equals sign or spaces between;
/// commas between thousands are allowed. `key` must not be the end of a longer word.
std::optional<double> number_after(std::string_view text, std::string_view key);
std::optional<int64_t> integer_after(std::string_view text, std::string_view key);

/// Which comes first in a date; 05/06/2025 does not tell, and is read with the month first.
enum class DateOrder : uint8_t { year, month, day, month_or_day };

/// A date and time that a text begins with: "2026/09/08 07:20:00.279", "2025-09-24T03:48:00,5",
/// "20260908 07:20:00", "9/18/2025 1:05:00 PM", "18.09.2025 13:05:00".
struct Stamp {
  Instant time;     // since 1970, in whatever time zone that is
  size_t size = 0;  // characters
  DateOrder order = DateOrder::year;
};
std::optional<Stamp> stamp_of(std::string_view text);

/// The date that has the day first, of one that was read with the month first.
Instant with_day_first(Instant);
/// Whether stamps that do not tell have the day first: as others do, else as the time between them
/// is shorter. Nothing where neither tells, or others contradict each other.
std::optional<bool> have_day_first(const std::set<DateOrder>&, Instant first, Instant last);

/// Whether clocks were set to summer time between two stamps: an hour is missing beside the usual
/// time, early on a Sunday of spring (of either half of the earth).
bool is_summer_time(Instant before, Instant after, Seconds usual);

/// The last "2024-03-14 18:01:24", "2024/03/14T18:01:24" or "03/14/2024 18:01:24" of a text.
std::optional<Stamp> last_stamp(std::string_view text);

}  // namespace triplepoint::trace
