// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

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

/// A run put together from samples with Unix times.
class ImportedRun {
 public:
  ImportedRun(const Path& source, std::string producer);

  void add(Samples, run::SeriesSource about);
  /// Readings of a signal that failed, and were left out.
  void note_failed(std::string_view signal, int64_t count);
  void note(std::string sentence) { run_.manifest.notes.push_back(std::move(sentence)); }

  /// Devices 0 to the highest with a series, `per_node` of them to a node; times since the first
  /// stamp.
  void number_devices(int32_t per_node);
  /// The run without steps; add those with instant_of().
  run::Run& finished();
  Instant instant_of(int64_t unix_ns) const;

 private:
  struct Pending {
    Samples samples;
    run::SeriesSource about;
  };
  run::Run run_;
  std::vector<Pending> pending_;
  std::map<std::string, int64_t, std::less<>> failed_;
  int64_t epoch_ = 0;
  int32_t num_devices_ = 0;
};

/// The plain .csv files of a folder (not of those below), by name; the file itself if it is one.
std::vector<Path> csv_files(const Path& source);

}  // namespace triplepoint::telemetry
