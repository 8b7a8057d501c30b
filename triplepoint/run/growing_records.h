// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/run/byte_records.h"
#include "triplepoint/run/chunk_codec.h"
#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// What the blocks of a growing run consist of. Part of the file format: a number never changes its
/// meaning, new ones may come.
enum class RecordKind : uint8_t {
  begin = 1,
  host = 2,
  anchor = 3,
  note = 4,
  fact = 5,
  device = 6,
  series = 7,
  span_type = 8,
  span = 9,
  step = 10,
  values = 11,  // of one series since the last block
  axis = 12,    // of a fold: time stamps, encoded
  chunk = 13    // of a fold: values of one series at the times of one of the fold's axes
};

/// Appends records to the bytes of a block.
class RecordWriter {
 public:
  explicit RecordWriter(std::string& bytes) : out_(bytes) {}

  void begin(const Manifest&);
  void host(int32_t node, std::string_view name);
  void add(const ClockAnchor&);
  void note(std::string_view text);
  void fact(std::string_view key, std::string_view value);
  void add(size_t position, const Device&);
  void add(const Series& without_values, const SeriesSource* source);
  void add(const SpanType&);
  void add(const Span&);
  void add(const StepRecord&);
  struct Values {
    uint64_t series = 0;
    const int64_t* times = nullptr;
    const double* values = nullptr;
    size_t count = 0;
  };
  /// Times equal to those of the last record are not written again.
  void add(const Values&);
  void axis(const Chunk&);
  void chunk(uint64_t series, uint64_t axis, const Chunk&);

 private:
  void kind(RecordKind kind) { out_.count(static_cast<uint64_t>(kind)); }
  void encoded(const Chunk&);

  ByteWriter out_;
  std::vector<int64_t> last_times_;
};

/// Gets what the records of a block say. Indexes are in range, numbers possible.
class RecordVisitor {
 public:
  RecordVisitor() = default;
  RecordVisitor(const RecordVisitor&) = delete;
  RecordVisitor& operator=(const RecordVisitor&) = delete;
  RecordVisitor(RecordVisitor&&) = delete;
  RecordVisitor& operator=(RecordVisitor&&) = delete;
  virtual ~RecordVisitor() = default;

  virtual void take(const Span&) = 0;
  virtual void take(const StepRecord&) = 0;
  virtual void values(size_t series, const std::vector<int64_t>& times,
                      const std::vector<double>& values) = 0;
  virtual void axis(const Chunk&) = 0;
  virtual void chunk(size_t series, size_t axis_of_fold, const Chunk&) = 0;
};

/// Reads blocks one after the other. What is small and needed to understand the rest is kept here:
/// manifest, devices, series without values, sources, span types.
class RecordReader {
 public:
  /// False if the bytes are not what a writer wrote; what was read before stays.
  bool read(std::string_view block, RecordVisitor& visitor);

  /// Devices, series, sources, types of spans as known so far.
  const Run& head() const { return head_; }

 private:
  bool read_record(ByteReader& in, RecordVisitor& visitor);
  void read_manifest_record(RecordKind kind, ByteReader& in);
  void read_device(ByteReader& in);
  void read_series(ByteReader& in);
  void read_span_type(ByteReader& in);
  void read_span(ByteReader& in, RecordVisitor& visitor);
  void read_step(ByteReader& in, RecordVisitor& visitor);
  void read_values(ByteReader& in, RecordVisitor& visitor);
  void read_chunk(RecordKind kind, ByteReader& in, RecordVisitor& visitor);

  Run head_;
  std::vector<int64_t> times_;
  std::vector<double> values_;
  uint64_t axes_ = 0;  // of the block
};

}  // namespace triplepoint::run
