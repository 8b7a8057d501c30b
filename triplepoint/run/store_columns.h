// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "triplepoint/run/chunk_codec.h"
#include "triplepoint/run/store_database.h"

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

}  // namespace triplepoint::run
