// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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

/// A date and time that a text begins with: "2026/09/08 07:20:00.279", "2025-09-24T03:48:00,5",
/// "20260908 07:20:00".
struct Stamp {
  Instant time;     // since 1970, in whatever time zone that is
  size_t size = 0;  // characters
};
std::optional<Stamp> stamp_of(std::string_view text);

/// The last "2024-03-14 18:01:24" or "...T18:01:24" of a text.
std::optional<Instant> last_stamp(std::string_view text);

}  // namespace triplepoint::trace
