// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/run/run.h"
#include "triplepoint/run/timeline.h"

#include "triplepoint/store/chunk_codec.h"
#include "triplepoint/store/store_database.h"

namespace triplepoint::run {

/// Which numbers: the part of the run ("span", "instance", "piece_span", "axis", "series"), which
/// one of its kind, and the column's name.
struct ColumnKey {
  std::string_view part;
  int64_t owner = 0;
  std::string_view name;
};

/// Writes columns as chunks.
class ColumnWriter {
 public:
  static Result<ColumnWriter> create(const Database&);

  Result<bool> write(const ColumnKey&, std::span<const int64_t> values);
  Result<bool> write(const ColumnKey&, std::span<const double> values);
  Result<bool> write(const ColumnKey& key, const Chunk& chunk) { return write_chunk(key, chunk); }

 private:
  explicit ColumnWriter(Statement insert) : insert_(std::move(insert)) {}
  template <class Number>
  Result<bool> write_chunks(const ColumnKey&, std::span<const Number> values);
  Result<bool> write_chunk(const ColumnKey&, const Chunk&);

  Statement insert_;
  ChunkEncoder encoder_;
};

/// Reads them back. A column that is not there has no values.
class ColumnReader {
 public:
  static Result<ColumnReader> create(const Database&);

  Result<std::vector<int64_t>> integers(const ColumnKey&);
  Result<std::vector<double>> doubles(const ColumnKey&);

 private:
  ColumnReader(Statement select, std::string name)
      : select_(std::move(select)), file_(std::move(name)) {}
  template <class Number>
  Result<std::vector<Number>> read(const ColumnKey&);

  Statement select_;  // one chunk by its id
  std::string file_;
  std::unordered_map<std::string, std::vector<int64_t>> chunks_;  // ids, by key, in order
};

/// Farther from the epoch than 36 years lies nothing; sums of such times do not overflow.
inline constexpr int64_t farthest_nanoseconds = int64_t{1} << 60;

/// How one field of an item is stored. `set` says whether the number is possible.
template <class Item>
struct IntegerField {
  const char* name;
  int64_t (*get)(const Item&);
  bool (*set)(Item&, int64_t);
};
template <class Item>
struct DoubleField {
  const char* name;
  double (*get)(const Item&);
  void (*set)(Item&, double);
};

inline bool set_instant(Instant& target, int64_t nanoseconds) {
  target = Instant(nanoseconds);
  return nanoseconds > -farthest_nanoseconds && nanoseconds < farthest_nanoseconds;
}
inline bool set_narrow(int32_t& target, int64_t value) {
  target = static_cast<int32_t>(value);
  return target == value;
}

/// Writes one column per field.
template <class Item, class Integers, class Doubles>
Result<bool> write_items(ColumnWriter& writer, std::string_view part,
                         const std::vector<Item>& items, const Integers& integers,
                         const Doubles& doubles) {
  std::vector<int64_t> whole(items.size());
  for (const IntegerField<Item>& field : integers) {
    for (size_t i = 0; i < items.size(); ++i)
      whole[i] = field.get(items[i]);
    TPT_TRY(writer.write({part, 0, field.name}, std::span<const int64_t>(whole)));
  }
  std::vector<double> real(items.size());
  for (const DoubleField<Item>& field : doubles) {
    for (size_t i = 0; i < items.size(); ++i)
      real[i] = field.get(items[i]);
    TPT_TRY(writer.write({part, 0, field.name}, std::span<const double>(real)));
  }
  return true;
}

inline tl::unexpected<Error> bad_column(std::string_view part, const char* name) {
  return error(
      fmt::format("the run file is damaged (column \"{} {}\" does not fit to the others); try the "
                  "copy it was made from",
                  part, name));
}

/// Reads them back. The first integer column says how many items there are.
template <class Item, class Integers, class Doubles>
Result<std::vector<Item>> read_items(ColumnReader& reader, std::string_view part,
                                     const Integers& integers, const Doubles& doubles) {
  std::vector<Item> items;
  bool first = true;
  for (const IntegerField<Item>& field : integers) {
    const std::vector<int64_t> column = TPT_TRY(reader.integers({part, 0, field.name}));
    if (first) items.resize(column.size());
    first = false;
    if (column.size() != items.size()) return bad_column(part, field.name);
    for (size_t i = 0; i < items.size(); ++i)
      if (!field.set(items[i], column[i])) return bad_column(part, field.name);
  }
  for (const DoubleField<Item>& field : doubles) {
    const std::vector<double> column = TPT_TRY(reader.doubles({part, 0, field.name}));
    if (column.size() != items.size()) return bad_column(part, field.name);
    for (size_t i = 0; i < items.size(); ++i)
      field.set(items[i], column[i]);
  }
  return items;
}

// The plain tables of a run file: everything but spans and series. Each pair is one table, or a few
// that belong together.

Result<bool> write_manifest(const Database&, const Run&);
Result<bool> read_manifest(const Database&, Run&);

// Devices and summaries; of many devices without the summaries' lists.
Result<bool> write_devices(const Database&, const Run&, Layout = Layout::of_each_device);
Result<bool> read_devices(const Database&, Run&);
// These lists: a column for each name, not-a-number where a device has no such entry.
Result<bool> write_share_columns(ColumnWriter&, const std::vector<DeviceSummary>&);
Result<bool> read_share_columns(const Database&, ColumnReader&, std::vector<DeviceSummary>&);

// Where series come from, names of nodes, clock anchors. Runs of before have none.
Result<bool> write_sources(const Database&, const Run&);
Result<bool> read_sources(const Database&, Run&);

Result<bool> write_steps(const Database&, const Run&);  // steps, memory
Result<bool> read_steps(const Database&, Run&);

// Who holds a step up. Runs of before have none.
Result<bool> write_bottlenecks(const Database&, const Run&);
Result<bool> read_bottlenecks(const Database&, Run&);

Result<bool> write_metrics(const Database&, const std::map<std::string, double>&);
Result<std::map<std::string, double>> read_metrics(const Database&);

// Spans, patterns, instances and series as columns of chunks, with the plain tables that describe
// them.

Result<bool> write_timeline(const Database&, ColumnWriter&, const Timeline&);
/// More spans behind those that are there, in any order.
Result<bool> write_spans(ColumnWriter&, const std::vector<Span>&);
Result<bool> read_timeline(const Database&, ColumnReader&, Timeline&);

// Their part: lanes, communicators and details of what was traced. Runs of before have none.
Result<bool> write_timeline_details(const Database&, ColumnWriter&, const Timeline&);
Result<bool> read_timeline_details(const Database&, ColumnReader&, Timeline&);

Result<bool> write_series(const Database&, ColumnWriter&, const std::vector<Series>&,
                          Layout = Layout::of_each_device);
Result<bool> read_series(const Database&, ColumnReader&, std::vector<Series>&);

}  // namespace triplepoint::run
