// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::telemetry {

/// Values over time as files of other samplers hold them: Unix times, ascending.
struct Samples {
  std::vector<int64_t> unix_ns;
  std::vector<double> values;

  bool empty() const { return values.empty(); }
};

/// Rows of numbers without a header: a Unix time in seconds, then `columns` values (0: as many as
/// the first row has). An empty cell is no value; so is a last row that was cut off.
struct NumberRows {
  std::vector<int64_t> unix_ns;
  std::vector<std::vector<std::optional<double>>> columns;
};
Result<NumberRows> read_rows(std::string_view text, std::string_view name, std::size_t columns);

/// Seconds with a fraction as exact nanoseconds; nothing unless it is a time between 1970 and 2255.
std::optional<int64_t> unix_time(std::string_view seconds);
/// The same, back: 1700000000.250000000.
std::string unix_time_text(int64_t unix_ns);
std::optional<double> number(std::string_view text);

/// The next line of a text, without its end; moves on behind it. Nothing at the end.
std::optional<std::string_view> next_line(std::string_view& text);
std::vector<std::string_view> cells_of(std::string_view line);

/// One column in the order of time, without repeated stamps; what `is_reading` refuses is left out
/// and counted.
struct Column {
  Samples samples;
  int64_t failed = 0;
};
Column readings(const NumberRows& rows, std::size_t column);

/// A counter that was read modulo 2^32, as one that only grows from its first reading (0); what was
/// counted twice 2^32 between two readings cannot be known. `factor`: to our unit.
void unwrap(Samples& counter, double factor);

/// Sum or maximum at the stamps of the first; the others hold their latest value.
enum class Combine { sum, maximum };
Samples combined(const std::vector<Samples>& all, Combine how);

}  // namespace triplepoint::telemetry
